//! Breakpoints and watchpoints.

use super::remote::Remote;
use crate::watchpoints::{Access, Watchpoint, Watchpoints};
use gdbstub::target::TargetResult;
use gdbstub::target::ext::breakpoints::{
    Breakpoints, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint,
    SwBreakpointOps, WatchKind,
};

impl Breakpoints for Remote {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Remote {
    fn add_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        let conditions = self.conditions.take();
        let inferior = &mut self.session.replay_mut().inferior;
        // Accept unmapped addresses, since code may be mapped there at another time.
        let is_there =
            inferior.read(address, &mut [0]) == 1 || inferior.text.may_be_mapped(address);
        if is_there {
            inferior.stops.breakpoints.insert(address);
            match conditions {
                Some(conditions) => inferior.stops.conditions.insert(address, conditions),
                None => inferior.stops.conditions.remove(&address),
            };
        }
        Ok(is_there)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.session.replay_mut().inferior.stops.breakpoints.remove(&address);
        self.session.replay_mut().inferior.stops.conditions.remove(&address);
        Ok(true)
    }
}

/// Hardware breakpoints are the same as others: those are invisible and unlimited, too.
impl HwBreakpoint for Remote {
    fn add_hw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.add_sw_breakpoint(address, kind)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.remove_sw_breakpoint(address, kind)
    }
}

impl Remote {
    fn watchpoints(&mut self) -> &mut Watchpoints {
        &mut self.session.replay_mut().inferior.stops.watchpoints
    }
}

fn watchpoint(address: u64, bytes: u64, kind: WatchKind) -> Watchpoint {
    let access = match kind {
        WatchKind::Write => Access::Write,
        WatchKind::Read => Access::Read,
        WatchKind::ReadWrite => Access::Both,
    };
    Watchpoint { address, bytes, access }
}

impl HwWatchpoint for Remote {
    fn add_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.watchpoints().add(watchpoint(address, bytes, kind)))
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.watchpoints().remove(watchpoint(address, bytes, kind)))
    }
}
