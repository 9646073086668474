#!/bin/bash
# enter.sh ROOT FOLDER UV CWD COMMAND...: run a command in the system under ROOT, with FOLDER at its own path.
# The mounts are seen by this command alone. Nothing of this machine's can be written but FOLDER.
set -euo pipefail
exec unshare --mount bash -c '
set -euo pipefail
root=$1 folder=$2 uv=$3 cwd=$4
shift 4
read_only() {
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
}
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
# Names, certificates and the index of packages are this machine'"'"'s.
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/uv/uv.toml /etc/ssl/certs/ca-certificates.crt; do
    [ -e "$file" ] || continue
    mkdir -p "$root${file%/*}" && touch "$root$file"
    read_only "$(readlink -f "$file")" "$file"
done
touch "$root/usr/local/bin/uv"
read_only "$uv" /usr/local/bin/uv
mkdir -p "$root$folder"
mount --bind "$folder" "$root$folder"
exec chroot "$root" /usr/bin/env -C "$cwd" "$@"
' enter "$@"
