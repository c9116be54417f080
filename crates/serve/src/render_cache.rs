//! A cache of renders by request: equal requests share one render, and the most recent ones are
//! kept. Also the bound on how many renders run at a time.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::http::{Response, Status};
use super::lru::Lru;

/// Longest wait for a free place or for another request's render.
const PATIENCE: Duration = Duration::from_secs(60);

/// Finished renders, the ones under way, and the places for more.
#[derive(Debug)]
pub(crate) struct RenderCache {
    state: Mutex<State>,
    changed: Condvar,
    /// Bytes of finished renders kept.
    budget_bytes: usize,
    /// Renders at a time.
    places: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Keys whose render is running.
    under_way: HashSet<String>,
    done: Lru<Response>,
    /// Bytes of `done`.
    bytes: usize,
}

impl RenderCache {
    /// A cache that keeps `budget_bytes` and runs `places` renders at a time.
    pub(crate) fn new(budget_bytes: usize, places: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), budget_bytes, places }
    }

    /// The kept render of `key`, or a new one. Only successful renders are kept.
    pub(crate) fn get(&self, key: &str, render: impl FnOnce() -> Response) -> Response {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.lock();
        loop {
            if let Some(response) = state.done.get(key) {
                return response.clone();
            }
            if !state.under_way.contains(key) && state.under_way.len() < self.places {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Response::error(
                    Status::Unavailable,
                    "busy with other renders, try again in a moment",
                );
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.under_way.insert(key.to_owned());
        drop(state);
        // Released on every way out, a panicking render included.
        let place = PendingRender { cache: self, key };
        let response = render();
        place.finish(&response);
        response
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, key: &str, response: &Response, budget_bytes: usize) {
        let bytes = most_bytes(response);
        if bytes > budget_bytes / 2 {
            return;
        }
        self.bytes += bytes;
        self.done.insert(key.to_owned(), response.clone());
        while self.bytes > budget_bytes {
            let Some(oldest) = self.done.pop_oldest() else { break };
            self.bytes -= most_bytes(&oldest);
        }
    }
}

/// What a kept render may come to: its packed form is made later, and never larger.
fn most_bytes(response: &Response) -> usize {
    2 * response.body.len()
}

struct PendingRender<'a> {
    cache: &'a RenderCache,
    key: &'a str,
}

impl PendingRender<'_> {
    fn finish(self, response: &Response) {
        if response.status == Status::Ok {
            self.cache.lock().keep(self.key, response, self.cache.budget_bytes);
        }
    }
}

impl Drop for PendingRender<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        state.under_way.remove(self.key);
        drop(state);
        self.cache.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn concurrent_askers_of_one_render_get_one_render() {
        let cache = RenderCache::new(1 << 20, 4);
        let (renders, start) = (AtomicUsize::new(0), Barrier::new(16));
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    start.wait();
                    let response = cache.get("same", || {
                        renders.fetch_add(1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(30));
                        Response::text("picture")
                    });
                    assert_eq!(&*response.body, b"picture");
                });
            }
        });
        assert_eq!(renders.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn renders_at_a_time_are_bounded() {
        let cache = RenderCache::new(1 << 20, 2);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for key in 0..8 {
                let (cache, now, most) = (&cache, &now, &most);
                scope.spawn(move || {
                    cache.get(&key.to_string(), || {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(10));
                        now.fetch_sub(1, Ordering::SeqCst);
                        Response::text("")
                    });
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 2);
    }

    #[test]
    fn memory_is_bounded_and_errors_are_not_kept() {
        let cache = RenderCache::new(100, 1);
        for key in 0..50 {
            cache.get(&key.to_string(), || Response::text(vec![0; 25]));
        }
        assert!(cache.lock().bytes <= 100);
        assert_eq!(cache.lock().done.len(), 2);
        let failing = || Response::error(Status::Internal, "no");
        assert_eq!(cache.get("e", failing).status, Status::Internal);
        assert_eq!(cache.get("e", || Response::text("now")).status, Status::Ok);
    }

    #[test]
    fn a_panicking_render_gives_its_place_back() {
        let cache = RenderCache::new(100, 1);
        let panicked =
            thread::scope(|scope| scope.spawn(|| cache.get("k", || panic!("render"))).join().is_err());
        assert!(panicked);
        assert_eq!(&*cache.get("k", || Response::text("fine")).body, b"fine");
    }
}
