//! What is unwound: chains of generated functions.

use std::ffi::{c_long, c_void};

type Function = unsafe extern "C" fn(*mut Chain, c_long) -> c_long;
pub type Leaf = unsafe extern "C" fn(*mut Chain, *mut c_void) -> c_long;

/// `chain.h`.
#[repr(C)]
pub struct Chain {
    pub leaf: Leaf,
    pub body: *mut c_void,
    pub memo: *mut c_void,
    repeats: c_long,
    salt: c_long,
    steps: *const u8,
    sink: *mut c_void,
    numbers: [c_long; 8],
    fixed: [Function; 128],
    walking: [Function; 128],
}

macro_rules! chains {
    ($($fixed:ident $walking:ident)*) => {
        unsafe extern "C" {
            $(static $fixed: [Function; 32]; static $walking: [Function; 32];)*
            fn throwing(chain: *mut Chain, depth: c_long) -> c_long;
            fn recursing(chain: *mut Chain, depth: c_long) -> c_long;
        }
        fn fixed_functions() -> [Function; 128] {
            let all: Vec<Function> = [$(unsafe { $fixed }),*].concat();
            all.try_into().unwrap()
        }
        fn walking_functions() -> [Function; 128] {
            let all: Vec<Function> = [$(unsafe { $walking }),*].concat();
            all.try_into().unwrap()
        }
    };
}
chains! {
    fixed_functions_0 walking_functions_0
    fixed_functions_1 walking_functions_1
    fixed_functions_2 walking_functions_2
    fixed_functions_3 walking_functions_3
}

impl Chain {
    pub fn new(leaf: Leaf, body: *mut c_void, memo: *mut c_void) -> Box<Chain> {
        Box::new(Chain {
            leaf,
            body,
            memo,
            repeats: 1,
            salt: 0,
            steps: std::ptr::null(),
            sink: std::ptr::null_mut(),
            numbers: [1, 22, 333, 4444, 55555, 6, 7, 8],
            fixed: fixed_functions(),
            walking: walking_functions(),
        })
    }
}

/// How the stack changes between two captures.
#[derive(Clone, Copy)]
pub enum Scenario {
    /// Not at all.
    Same,
    /// A random walk over the call tree: before each second capture a run of calls or returns, of
    /// this mean length.
    Walk(usize),
    /// One function calls itself; each frame captures on the way down.
    Recursion,
    /// A burst of captures, a throw through up to eight frames, a capture in the handler.
    Exceptions,
}

impl Scenario {
    pub const ALL: [(&'static str, Scenario); 5] = [
        ("same stack", Scenario::Same),
        ("random walk", Scenario::Walk(1)),
        ("wild walk (synthetic worst)", Scenario::Walk(4)),
        ("recursion", Scenario::Recursion),
        ("C++ exceptions", Scenario::Exceptions),
    ];

    /// The steps of a batch with `captures` captures, made before the clock starts.
    pub fn steps(self, depth: usize, captures: usize, seed: u64) -> Vec<u8> {
        match self {
            Scenario::Walk(run) => walk(depth - 4, captures, run, seed),
            Scenario::Recursion => {
                let mut steps = vec![2_u8; captures.max(8 * depth)];
                steps.push(255);
                steps
            }
            Scenario::Same | Scenario::Exceptions => Vec::new(),
        }
    }

    /// One batch of about `captures` captures around `depth` frames; how many there were.
    pub fn run(self, chain: &mut Chain, steps: &[u8], depth: usize, captures: usize, batch: usize) -> usize {
        // Test harness, main and the innermost function are frames too.
        let levels = depth.saturating_sub(5) as c_long;
        match self {
            Scenario::Same => {
                chain.repeats = captures as c_long;
                chain.salt = batch as c_long & 7;
                // SAFETY: the generated functions work on a chain.
                unsafe { (chain.fixed[3])(chain, levels) };
                captures
            }
            Scenario::Walk(_) => {
                chain.steps = steps.as_ptr();
                // SAFETY: as above; the steps end in 255.
                unsafe { (chain.walking[3])(chain, 0) };
                captures
            }
            Scenario::Recursion => {
                chain.steps = steps.as_ptr();
                // SAFETY: as above.
                unsafe { recursing(chain, levels) };
                steps.len() - 1
            }
            Scenario::Exceptions => {
                const BURST: usize = 16;
                chain.repeats = BURST as c_long;
                let rounds = captures / (BURST + 1) + 1;
                for _ in 0..rounds {
                    // SAFETY: as above.
                    unsafe { throwing(chain, levels) };
                }
                rounds * (BURST + 1)
            }
        }
    }
}

/// Steps of a walk that keeps returning to `depth`.
fn walk(depth: usize, captures: usize, run: usize, seed: u64) -> Vec<u8> {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut steps = Vec::new();
    let mut at = 0;
    while at < depth {
        steps.push(2 + random(126) as u8);
        at += 1;
    }
    let mut done = 0;
    while done < captures {
        if random(2) != 0 {
            let returning = random(2 * depth) < at;
            for _ in 0..=random(2 * run - 1) {
                if returning && at > 1 {
                    steps.push(1);
                    at -= 1;
                } else if !returning && at < 2 * depth {
                    steps.push(2 + random(126) as u8);
                    at += 1;
                }
            }
        }
        steps.push(0);
        done += 1;
    }
    steps.push(255);
    steps
}
