# Read by scripts/build_guest and scripts/build_kernel: Debian's kernel for virtual machines, and
# the file system that it starts from. The caller defines `fail`, and $work, a directory of its own.

kernel_package() {
    apt-cache depends --important linux-image-cloud-amd64 2>/dev/null |
        awk '/Depends: linux-image/ { print $2; exit }'
}

# Unpack the kernel into $work/kernel. Its package is kept, for whoever asks next.
unpack_kernel() {
    local package kept=build/linux
    [ "$(uname -m)" = x86_64 ] || fail "this is made for x86-64 only, and this is $(uname -m)"
    package=$(kernel_package)
    if [ -z "$package" ] && [ "$(id -u)" = 0 ]; then
        apt-get -qq update
        package=$(kernel_package)
    fi
    [ -n "$package" ] ||
        fail "the package linux-image-cloud-amd64 is in no package list here; run apt-get update"
    mkdir -p "$kept"
    (
        flock 8
        compgen -G "$kept/${package}_*.deb" >/dev/null && exit
        rm -f "$kept"/linux-image-*.deb
        cd "$kept" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$package"
    ) 8>"$kept/lock"
    dpkg-deb -x "$kept/$package"_*.deb "$work/kernel"
}

# Take modules of that kernel into a root file system, in the order in which they load.
add_modules() {
    local root=$1 module file
    shift
    for module in "$@"; do
        file=$(find "$work/kernel/lib/modules" -name "$module.ko" -o -name "$module.ko.xz")
        case "$file" in
        *.ko) cp "$file" "$root/modules/" ;;
        *.ko.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
        *)
            grep -q "/$module.ko$" "$work"/kernel/lib/modules/*/modules.builtin ||
                fail "the kernel has no module $module"
            continue
            ;;
        esac
        echo "$module" >>"$root/modules/order"
    done
}

# Make a root file system with busybox, an init and modules: make_root INIT MODULE...
make_root() {
    local init=$1 root=$work/root
    shift
    mkdir -p "$root/bin" "$root/modules" "$root/dev"
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$init" "$root/init"
    chmod 755 "$root/init"
    add_modules "$root" "$@"
    (cd "$root" && find . | cpio --quiet -o -H newc -R 0:0 | gzip -9) >"$work/initrd"
}
