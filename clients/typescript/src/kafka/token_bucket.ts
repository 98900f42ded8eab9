/** So many in a second and no more: an agent that hammers at a refusal does not flood the topics. */
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

  /** How many were held back since the last that passed; undefined: this one is held back too. */
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
