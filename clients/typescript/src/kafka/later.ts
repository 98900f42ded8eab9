// A value that is awaited for a limited time.

/** A value that is set once, or cancelled. */
export class Later<T> {
  #done = false;
  #cancelled = false;
  #value: T | undefined;
  readonly #waiting = new Set<() => void>();

  get done(): boolean {
    return this.#done;
  }

  /** Undefined until it is set. */
  get value(): T | undefined {
    return this.#value;
  }

  /** False: it was set or cancelled before. */
  set(value: T): boolean {
    if (this.#done || this.#cancelled) return false;
    this.#done = true;
    this.#value = value;
    this.#wake();
    return true;
  }

  /** False: it is set already. */
  cancel(): boolean {
    if (this.#done) return false;
    this.#cancelled = true;
    this.#wake();
    return true;
  }

  /** Resolves when it is set or cancelled, or at the time limit. */
  wait(seconds: number): Promise<void> {
    if (this.#done || this.#cancelled || seconds <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(finish);
        resolve();
      };
      const timer = setTimeout(finish, Math.ceil(seconds * 1000));
      this.#waiting.add(finish);
    });
  }

  #wake(): void {
    for (const finish of [...this.#waiting]) finish();
  }
}
