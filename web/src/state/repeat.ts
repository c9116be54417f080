// Repeating a request for as long as its answer is on screen.

/// Runs `request` every `ms` milliseconds until `element` is removed or a request fails; not while
/// the one before is under way. A page in a hidden tab pauses.
export function repeatWhileShown(element: Element, ms: number, request: () => Promise<void>): void {
  let isUnderWay = false;
  const timer = setInterval(() => {
    if (!element.isConnected) return clearInterval(timer);
    if (document.hidden || isUnderWay) return;
    isUnderWay = true;
    request().then(() => (isUnderWay = false), () => clearInterval(timer));
  }, ms);
}
