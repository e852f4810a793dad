# Read by the scripts that run in the test kernel: serve NFS from /dev/vdb.

say() {
    read -r since _ </proc/uptime
    echo "kernel: ${since%.*} s: $*"
}

# serve_nfs DIRECTORY...: each can be mounted as 127.0.0.1:/DIRECTORY.
serve_nfs() {
    ip link set lo up
    mkdir -p /run/served
    mount -t ext4 /dev/vdb /run/served
    for directory in "$@"; do
        mkdir -p "/run/served/share/$directory"
    done
    modprobe nfsd
    modprobe nfsv4
    mkdir -p /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    mount -t rpc_pipefs none /var/lib/nfs/rpc_pipefs
    mount -t nfsd none /proc/fs/nfsd
    exportfs -i -o rw,no_root_squash,no_subtree_check,fsid=0,insecure 127.0.0.1:/run/served/share
    rpc.mountd --no-nfs-version 3
    # Nobody has locks to reclaim: a client need not wait 90 s for those of before.
    rpc.nfsd --no-nfs-version 3 --grace-time 10 --lease-time 10 4
    say "NFS is served"
}
