// Repeating a request for as long as its answer is on screen.

/// Runs `request` every `ms` milliseconds until `element` is removed or a request fails. A page in a
/// hidden tab pauses.
export function repeatWhileShown(element: Element, ms: number, request: () => Promise<void>): void {
  const timer = setInterval(() => {
    if (!element.isConnected) clearInterval(timer);
    else if (!document.hidden) request().catch(() => clearInterval(timer));
  }, ms);
}
