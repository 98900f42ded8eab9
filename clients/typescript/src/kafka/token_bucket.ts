/** A token bucket: an agent that repeats a refused call in a tight loop does not flood the topics. */
export class TokenBucket {
  #left: number;
  #lastS: number;
  #heldBack = 0;

  constructor(
    private readonly perS: number,
    private readonly burst: number,
    private readonly nowS: () => number = () => performance.now() / 1000,
  ) {
    this.#left = burst;
    this.#lastS = nowS();
  }

  /** Returns the number held back since the last admission; undefined: this one is held back too. */
  take(): number | undefined {
    const nowS = this.nowS();
    this.#left = Math.min(this.burst, this.#left + (nowS - this.#lastS) * this.perS);
    this.#lastS = nowS;
    if (this.#left < 1) {
      this.#heldBack++;
      return undefined;
    }
    this.#left--;
    const heldBack = this.#heldBack;
    this.#heldBack = 0;
    return heldBack;
  }
}
