// Calls of mode `async` that request a verdict for their arguments, besides those whose name or effect is destructive.
// The words are those of the Python client (`enforcement/fail_policy.py`); test/vectors/kafka-words.json checks
// that both agree.

/** Words in arguments for which a call of mode `async` requests a verdict. */
const WORDS: ReadonlySet<string> = new Set(`
  rm rmdir unlink shred truncate wipe wipefs rimraf del delete erase dd mkfs mke2fs fdisk parted blkdiscard destroy
  remove removedirs rmtree rmsync unlinksync rm_rf rm_r rm_f remove_dir remove_dir_all remove_file remove_tree
  clear overwrite drop dropdb dropdatabase update vacuum deletemany deleteone flushall flushdb flush reset purge
  expunge xdelete downgrade undo hard force clean checkout restore switch discard prune rmi down drain uninstall terminate rb
  deregister gsutil rclone replicas kill shutdown reboot halt chmod chown crontab userdel iptables eval exec xargs
  base64 b64decode
`.trim().split(/\s+/));

/** Whether JSON text contains a word of destruction, also after an escaped line break, or in quotes. */
export function holdsWord(written: string): boolean {
  if (written.includes("\\")) {
    const plain = written.replaceAll("\\n", " ").replaceAll("\\t", " ").replaceAll("\\r", " ");
    return holds(plain) || holds(plain.replace(/["'\\]/g, ""));
  }
  return holds(written) || (written.includes("'") && holds(written.replaceAll("'", "")));
}

function holds(text: string): boolean {
  return text
    .toLowerCase()
    .split(/[^a-z0-9_]+/)
    .some((word) => WORDS.has(word));
}
