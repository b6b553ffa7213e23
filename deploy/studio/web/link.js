// The socket to the studio: JSON messages by type; it connects again when the connection is lost.

const FIRST_WAIT_MS = 500, LONGEST_WAIT_MS = 8000;

export class Link {
  constructor() {
    this.listeners = new Map();
    this.wait = FIRST_WAIT_MS;
    this.isOpen = false;
  }

  /** Calls `listener(message)` for every message of this type; "open" and "close" are the link's own. */
  on(type, listener) {
    this.listeners.set(type, [...(this.listeners.get(type) ?? []), listener]);
  }

  emit(type, message) {
    for (const listener of this.listeners.get(type) ?? []) listener(message);
  }

  send(type, fields = {}) {
    if (this.isOpen) this.socket.send(JSON.stringify({type, ...fields}));
  }

  connect() {
    this.socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    this.socket.onopen = () => {
      this.isOpen = true;
      this.wait = FIRST_WAIT_MS;
      this.emit("open", {});
    };
    this.socket.onmessage = (event) => {
      const message = JSON.parse(event.data);
      this.emit(message.type, message);
    };
    this.socket.onclose = () => {
      this.isOpen = false;
      this.emit("close", {});
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(2 * this.wait, LONGEST_WAIT_MS);
    };
  }
}
