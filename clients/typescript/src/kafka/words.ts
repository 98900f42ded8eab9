// Which calls of mode `async` are worth a question, beside those whose name or declared effect says that they destroy.
// The words are those of the Python client (`enforcement/destructive_words.py`); test/vectors/kafka-words.json holds the
// two together.

/** In the arguments of a call, these make it worth a question in mode `async`. */
const WORDS: ReadonlySet<string> = new Set(`
  rm rmdir unlink shred truncate wipe wipefs rimraf del delete erase dd mkfs mke2fs fdisk parted blkdiscard destroy
  remove removedirs rmtree rmsync unlinksync rm_rf rm_r rm_f remove_dir remove_dir_all remove_file remove_tree
  clear overwrite drop dropdb dropdatabase update vacuum deletemany deleteone flushall flushdb flush reset purge
  expunge xdelete downgrade undo hard force clean checkout restore prune rmi down drain uninstall terminate rb
  deregister gsutil rclone replicas kill shutdown reboot halt chmod chown crontab userdel iptables eval exec xargs
  base64 b64decode
`.trim().split(/\s+/));

/** Whether a text as JSON holds a word that may destroy something, also behind an escaped line break, or in quotes. */
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
