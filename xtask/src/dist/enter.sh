# Runs a command in a root folder: enter.sh ROOT COMMAND... It is started in a mount namespace of
# its own, so that nothing stays mounted. A user in a mere chroot may not make user namespaces,
# which bwrap needs: hence pivot_root.
set -e
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs dev/shm
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p read-only old
mount -t tmpfs -o ro,mode=755 tmpfs read-only
pivot_root . old
cd /
umount -l /old
exec "$@"
