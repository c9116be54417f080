//! framehop as a contender, set up as documented for unwinding in signal handlers.

use std::arch::asm;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, MustNotAllocateDuringUnwind as NoAlloc, Unwinder};

struct Hopper {
    unwinder: UnwinderX86_64<&'static [u8], NoAlloc>,
    cache: CacheX86_64<NoAlloc>,
}

thread_local! {
    static HOPPER: RefCell<Hopper> = RefCell::new(Hopper::new());
}

impl Hopper {
    fn new() -> Self {
        let mut unwinder = UnwinderX86_64::new();
        // SAFETY: `add` gets the unwinder back.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut unwinder).cast()) };
        Hopper { unwinder, cache: CacheX86_64::new_in() }
    }
}

unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, unwinder: *mut c_void) -> c_int {
    // SAFETY: the loader's own description of what it mapped.
    unsafe {
        let info = &*info;
        let unwinder = &mut *unwinder.cast::<UnwinderX86_64<&'static [u8], NoAlloc>>();
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let Some(frame) = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME) else {
            return 0;
        };
        let Some(text) = loads().find(|header| header.p_flags & libc::PF_X != 0) else { return 0 };
        let bias = info.dlpi_addr;
        let header = std::slice::from_raw_parts((bias + frame.p_vaddr) as *const u8, frame.p_memsz as usize);
        let offset = i32::from_le_bytes(header[4..8].try_into().unwrap());
        let start = (frame.p_vaddr + 4).wrapping_add_signed(offset.into());
        let Some(load) = loads().find(|l| (l.p_vaddr..l.p_vaddr + l.p_filesz).contains(&start)) else {
            return 0;
        };
        let end = load.p_vaddr + load.p_filesz;
        let section = std::slice::from_raw_parts((bias + start) as *const u8, (end - start) as usize);
        let low = loads().map(|l| l.p_vaddr).min().unwrap_or(0);
        let high = loads().map(|l| l.p_vaddr + l.p_memsz).max().unwrap_or(0);
        let sections = ExplicitModuleSectionInfo {
            text_svma: Some(text.p_vaddr..text.p_vaddr + text.p_memsz),
            eh_frame_svma: Some(start..end),
            eh_frame: Some(section),
            eh_frame_hdr_svma: Some(frame.p_vaddr..frame.p_vaddr + frame.p_memsz),
            eh_frame_hdr: Some(header),
            ..Default::default()
        };
        let name = format!("{:x}", bias + low);
        unwinder.add_module(framehop::Module::new(name, bias + low..bias + high, bias, sections));
    }
    0
}

/// Unwinds from here; the number of frames.
#[inline(never)]
pub fn walk(max_depth: usize) -> usize {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads registers.
    unsafe { asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp) };
    // SAFETY: the stack of this thread is mapped.
    let mut read = |address: u64| Ok(unsafe { *(address as *const u64) });
    HOPPER.with_borrow_mut(|hopper| {
        let registers = UnwindRegsX86_64::new(pc, sp, fp);
        let mut frames = [0_u64; 512];
        let mut count = 0;
        let mut iterator = hopper.unwinder.iter_frames(pc, registers, &mut hopper.cache, &mut read);
        while let Ok(Some(frame)) = iterator.next() {
            let address: FrameAddress = frame;
            frames[count] = address.address();
            count += 1;
            if count == max_depth {
                break;
            }
        }
        std::hint::black_box(&frames);
        count
    })
}
