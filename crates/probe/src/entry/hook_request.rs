//! Requesting entry hooks from the launcher, when the program starts.
//!
//! `heapwise run` hooks the program that it starts. A program that takes the place of that one by
//! `exec`, or a child, has the preloaded probe but no hooks: only a controller can plan them.
//! Before the session begins, the probe connects to the launcher and waits. Meanwhile the launcher
//! writes the hooks through `/proc/PID/mem`. The wait is bounded, and ends at once when the
//! launcher has ended.

use heapwise_format::bytes::u64_at;
use heapwise_format::entry_hooks::{MAP_REQUEST_WORDS, REQUEST_SOCKET, REQUEST_TIMEOUT_MS};

use super::hooks::entry_points;
use crate::config::Config;
use crate::fixed_text::FixedText;
use crate::sys::{self, Socket};

/// Requests hooks, and waits until the launcher has installed them or has declined.
pub(super) fn make(config: &Config) {
    let Some(launcher) = config.launcher else { return };
    // A filter that the program inherited may end it for a call that connects.
    if !config.hook_requests || entry_points::hooked() != 0 || sys::is_filtered() {
        return;
    }
    let mut name = FixedText::<64>::new();
    name.push(REQUEST_SOCKET.as_bytes()).push_decimal(launcher.holder.pid.into());
    name.push(b"-").push_decimal(launcher.holder.starttime);
    let Ok(socket) = Socket::connect(name.as_bytes()) else { return };
    let mut message = [0; MAP_REQUEST_WORDS * 8];
    while socket.receive(&mut message, REQUEST_TIMEOUT_MS) {
        let word = |row: usize| u64_at(&message, row * 8).unwrap_or(0) as usize;
        let mapped = sys::map_island(word(0), word(1), word(2)).unwrap_or(0) as u64;
        if !socket.send(&mapped.to_le_bytes()) {
            return;
        }
    }
}
