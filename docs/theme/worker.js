// A page that is read from disk may not start a worker, so the search would not run. A hidden frame does the same job.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => {
        const copy = structuredClone(data); // as between threads: what either side changes is its own
        setTimeout(() => this.onmessage?.({ data: copy }));
      };
      this.waiting = [];
      const script = this.frame.contentDocument.createElement("script");
      script.src = url;
      script.onload = () => {
        this.waiting.forEach((data) => this.deliver(data));
        this.waiting = null;
      };
      script.onerror = (event) => this.onerror?.(event);
      this.frame.contentDocument.body.append(script);
    }
    deliver(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
    postMessage(data) {
      const copy = structuredClone(data);
      if (this.waiting) this.waiting.push(copy);
      else setTimeout(() => this.deliver(copy));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
