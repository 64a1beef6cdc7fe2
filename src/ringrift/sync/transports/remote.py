"""What runs at the other end of an ssh connection: POSIX sh, coreutils, and nothing of ours.

Every answer is a line of its own with a tag, so that whatever a login shell prints is not taken for one.  A folder
whose marker is not that of the node is *away*: only a folder that is there can answer that a file is *absent*.
"""

# Finds a blob in a pack (blobs/packs.py has the layout) with Python's library alone; prints offset, size and path.
# Fails on a pack that it cannot read: such a pack does not say that the blob is absent.
_LOCATE = """
import glob, hashlib, os, struct, sys
want = bytes.fromhex(sys.argv[2])
for path in glob.glob(glob.escape(sys.argv[1]) + "/packs/*.pack"):
    with open(path, "rb") as file:
        end = file.seek(-24, 2)
        start, magic = struct.unpack(">Q16s", file.read(24))
        file.seek(start)
        index = file.read(end - start)
    if magic != b"ringrift pack 1\\n" or hashlib.sha256(index).hexdigest() != os.path.basename(path)[:64]:
        sys.exit(1)
    entries = index[len(index) % 56:]
    at = entries.find(want)
    while at % 56 and at > 0:
        at = entries.find(want, at + 1)
    if at >= 0:
        sys.exit(print(*struct.unpack_from(">QQ", entries, at + 32), path))
"""

_ENTER = """
root=$1 node=$2 tag=$3 code=$4; shift 4
if [ "$code" = rsync ]; then exec 3>&2; else exec 3>&1; fi
answer() { printf '\\nringrift %s %s\\n' "$tag" "$1" >&3; }
case $root in "~"/*) root=$HOME/${root#??};; esac
shelf=$root/${tag%"${tag#??}"}
is_here() { [ "$(cat "$root/node" 2>/dev/null)" = "$node" ]; }
is_here || { answer away; exit; }
"""

# A file that cannot be seen for another reason than that it is absent must not count as absent.
_FIND = (
    _ENTER
    + """
start=0 file=
if [ -f "$shelf/$tag" ]; then
    file=$shelf/$tag; size=$(wc -c <"$file") || { answer away; exit; }
elif [ -e "$shelf" ] && ! ls "$shelf" >/dev/null 2>&1; then
    answer away; exit
elif ls "$root"/packs/*.pack >/dev/null 2>&1; then
    command -v python3 >/dev/null || { answer packed; exit; }
    place=$(python3 -c '"""
    + _LOCATE
    + """' "$root" "$tag") || { answer away; exit; }
    if [ "$place" ]; then start=${place%% *}; place=${place#* }; size=${place%% *}; file=${place#* }; fi
fi
[ "$file" ] || { is_here && answer absent || answer away; exit; }
emit() {
    if [ "$start" != 0 ]; then tail -c "+$((start + $1 + 1))" "$file" | head -c "$((size - $1))"
    elif [ "$1" = 0 ]; then cat "$file"
    else tail -c "+$(($1 + 1))" "$file"; fi
}
"""
)

READ = _FIND + 'answer "$((size))"; if [ "$code" = base64 ]; then emit "$1" | base64; else emit "$1"; fi\n'
"""One blob from an offset on: answers its size, then its bytes."""

CHECK = (
    _FIND
    + """
sum=$(emit 0 | sha256sum) || { answer away; exit; }
if [ "${sum%% *}" = "$tag" ]; then answer good; else answer bad; fi
"""
)
"""Hash a blob where it is."""

BATCH = (
    _ENTER
    + """
cd "$root" || { answer away; exit; }
answer ok
if [ "$code" = base64 ]; then tar -cf - -T - 2>/dev/null | base64; else exec tar -cf - -T - 2>/dev/null; fi
"""
)
"""The files whose paths come in, as an archive; those that are not there are left out."""

# The part may have become the blob while its lock was waited for: then what is open must not be written to.
PUSH = (
    _ENTER
    + """
total=$1 part=$root/partial/$tag.push
for tool in flock sha256sum; do command -v $tool >/dev/null || { answer no_$tool; exit; }; done
is_blob() { sum=$(sha256sum <"$1") && [ "${sum%% *}" = "$tag" ]; }
umask 077
mkdir -p "$root/partial" "$shelf" || { answer full; exit; }
exec 9>>"$part"
flock -n 9 && [ "$part" -ef /dev/fd/9 ] || { answer busy; exit; }
if [ -f "$shelf/$tag" ] && is_blob "$shelf/$tag"; then rm -f "$part"; answer stored; exit; fi
size=$(wc -c <"$part")
if [ "$size" -gt "$total" ]; then : >"$part"; size=0; fi
answer "$((size))"
if [ "$code" = base64 ]; then base64 -d >&9; else cat >&9; fi || { answer full; exit; }
if [ "$(wc -c <"$part")" -lt "$total" ]; then answer partial; exit; fi
is_blob "$part" || { rm -f "$part"; answer corrupt; exit; }
touch "$part" && sync "$part" && is_here && mv -f "$part" "$shelf/$tag" && sync "$shelf" "$root" && is_here &&
    answer stored || answer away
"""
)
"""Receive a blob, from where an earlier push broke off; it gets its name when it is whole, hashed and flushed."""

ROOM = _ENTER + 'df -Pk "$root" | { read -r line; read -r disk size used free line; answer "$((free * 1024))"; }\n'
"""How many bytes are free."""

SERVE_RSYNC = _FIND + 'answer "$((size))"; [ "$start" = 0 ] || { answer packed; exit; }; exec rsync "$@" 3>&-\n'
"""rsync's own server for one file, behind the same questions; the answers go to stderr, as its output is rsync's."""
