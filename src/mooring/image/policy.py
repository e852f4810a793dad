"""Who may do what by default: the rule names and defaults of OpenStack's image policy.

The target of a rule has the image's project (`project_id`, also as `owner`), its `visibility`, and
in `member_id` the caller's project where the image is shared with it.
Source: facts/identity_image_placement.md 5.3.
"""

from __future__ import annotations

_OWNER = "project_id:%(project_id)s"
_MEMBER = "project_id:%(member_id)s"
_ADMIN = "rule:context_is_admin"
_SEEN = " or ".join(
    [_OWNER, _MEMBER, *(f"'{word}':%(visibility)s" for word in ("community", "public", "shared"))]
)
_OWNER_WRITES = f"{_ADMIN} or (role:member and {_OWNER})"

RULES: dict[str, str] = {
    "default": "",
    "add_image": f"{_ADMIN} or (role:member and {_OWNER} and project_id:%(owner)s)",
    "get_image": f"{_ADMIN} or (role:reader and ({_SEEN}))",
    "get_images": f"{_ADMIN} or (role:reader and {_OWNER})",
    "download_image": f"{_ADMIN} or (role:member and ({_SEEN}))",
    "get_members": f"{_ADMIN} or (role:reader and ({_OWNER} or {_MEMBER}))",
    "get_member": f"{_ADMIN} or (role:reader and ({_OWNER} or {_MEMBER}))",
    "modify_member": f"{_ADMIN} or (role:member and {_MEMBER})",
    "publicize_image": _ADMIN,
    **dict.fromkeys(
        (
            "add_member",
            "communitize_image",
            "deactivate",
            "delete_image",
            "delete_member",
            "modify_image",
            "reactivate",
            "upload_image",
        ),
        _OWNER_WRITES,
    ),
    # Rules of calls that are not built, so that an operator's file for a real Glance is accepted.
    **dict.fromkeys(
        (
            "cache_delete",
            "cache_image",
            "cache_list",
            "copy_image",
            "delete_image_location",
            "get_image_location",
            "manage_image_cache",
            "set_image_location",
            "stores_info_detail",
            "tasks_api_access",
        ),
        _ADMIN,
    ),
}
"""Rule texts by name, in oslo.policy's language."""
