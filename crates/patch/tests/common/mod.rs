//! Checks that every image must pass.

#![allow(dead_code, reason = "each test program uses its part")]

pub mod assembler;
pub mod sections;

use assembler::{Symbol, named_file};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, MemorySize, Mnemonic, OpKind, Register,
};
use retake_contract::context::context;
use retake_patch::{
    CALL_TRAP, Entry, Image, ImageSegment, Options, PAGE_BYTES, Placement, Site, SiteKind, Verdict,
    examine,
};

/// The numbers of patched and of refused sites of one kind.
pub fn counts(verdict: &Verdict, kind: SiteKind) -> (usize, usize) {
    let patched = match verdict {
        Verdict::Patched(image) => image.sites.iter().filter(|site| site.kind == kind).count(),
        Verdict::Unpatched(_) => 0,
    };
    (patched, verdict.refused().iter().filter(|site| site.kind == kind).count())
}

/// Prints the result for a file.
pub fn print_counts(name: &str, verdict: &Verdict) {
    for kind in SiteKind::ALL {
        let (patched, refused) = counts(verdict, kind);
        println!("{name}: {kind:?}: {patched} patched, {refused} refused");
    }
    for site in verdict.refused() {
        println!("{name}:   {:?} at {:#x}: {:?}", site.kind, site.address, site.reason);
    }
    println!("{name}: unknown_calls {}", verdict.unknown_calls());
}

/// The bytes of the image at a text address.
fn text(segments: &[ImageSegment], address: u64, bytes: usize) -> &[u8] {
    let segment = segments
        .iter()
        .find(|segment| {
            (segment.address..segment.address + segment.bytes.len() as u64).contains(&address)
        })
        .expect("a patched address is in a segment");
    let at = (address - segment.address) as usize;
    &segment.bytes[at..at + bytes]
}

fn decode(bytes: &[u8], address: u64) -> Instruction {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    assert!(!instruction.is_invalid(), "invalid instruction at {address:#x}");
    instruction
}

/// Returns the verdict on a file of functions in a row, with these names. Checks the image if there
/// is one.
pub fn verdict_on(functions: &[&[u8]], names: &str, options: &Options) -> Verdict {
    let mut symbols = Vec::new();
    let mut start = 0;
    for function in functions {
        let bytes = function.len() as u64;
        symbols.push(Symbol { start, bytes });
        start += bytes;
    }
    let file = named_file(&functions.concat(), &symbols, names);
    let verdict = examine(&file, Placement::After, options).expect("well formed");
    if let Verdict::Patched(image) = &verdict {
        check_image(&file, image, Placement::After);
    }
    verdict
}

/// Checks everything about an image that does not need its execution.
pub fn check_image(elf: &[u8], image: &Image, placement: Placement) {
    assert_eq!(image.stubs.len() as u64 % PAGE_BYTES, 0);
    match placement {
        Placement::After => assert_eq!(image.stub_address, image.high),
        Placement::Before => {
            assert_eq!(image.stub_address.wrapping_add(image.stubs.len() as u64), image.low)
        }
    }
    for (entry, literal) in Entry::ALL.iter().zip(image.stubs.chunks_exact(8)) {
        assert_eq!(literal, entry.address().to_le_bytes());
    }
    for site in &image.sites {
        check_site(elf, image, site);
    }
    check_only_patches_differ(elf, image);
}

/// Checks that the image is equal to the file outside the patched bytes.
fn check_only_patches_differ(elf: &[u8], image: &Image) {
    for segment in &image.segments {
        let start = segment.file_offset as usize;
        let mut expected = elf[start..elf.len().min(start + segment.bytes.len())].to_vec();
        expected.resize(segment.bytes.len(), 0);
        for (start, length) in image.rewritten() {
            let at = start.wrapping_sub(segment.address) as usize;
            if at < expected.len() {
                let end = at + length as usize;
                expected[at..end].copy_from_slice(&segment.bytes[at..end]);
            }
        }
        assert!(expected == segment.bytes, "bytes outside patches changed");
    }
}

/// Returns the original text from an address on.
fn original<'elf>(elf: &'elf [u8], image: &Image, address: u64) -> &'elf [u8] {
    let segments = &image.segments;
    let holds = |segment: &&ImageSegment| {
        (segment.address..segment.address + segment.bytes.len() as u64).contains(&address)
    };
    let segment = segments.iter().find(holds).expect("a patched address is in a segment");
    &elf[(segment.file_offset + (address - segment.address)) as usize..]
}

/// Follows the jump of a site to its stub. Returns the stub's address.
fn stub_jump(image: &Image, site: &Site) -> u64 {
    let mut jump = decode(text(&image.segments, site.patch_address, 5), site.patch_address);
    if let Some(pad) = site.pad_address {
        assert_eq!((jump.len(), jump.near_branch_target()), (2, pad));
        jump = decode(text(&image.segments, pad, 5), pad);
    }
    assert_eq!(jump.flow_control(), FlowControl::UnconditionalBranch);
    assert_eq!(jump.len(), 5);
    let stub = image.stub_address.wrapping_add(u64::from(site.stub.offset));
    assert_eq!(jump.near_branch_target(), stub);
    stub
}

/// Follows the jump through the stub: the displaced instructions in order, the call of the runtime,
/// the jump back.
fn check_site(elf: &[u8], image: &Image, site: &Site) {
    if site.kind.is_of_section() {
        return sections::check_section_site(elf, image, site);
    }
    let stub = stub_jump(image, site);
    if site.kind == SiteKind::SystemCall {
        let kept = text(&image.segments, site.address, usize::from(site.length));
        assert!(kept.ends_with(&CALL_TRAP), "the system call traps");
        assert_eq!(site.stub.continue_at, site.address + u64::from(site.length));
        assert!(site.patch_address + u64::from(site.patch_length) <= site.address);
    }
    let start = site.stub.offset as usize;
    let code = &image.stubs[start..start + site.stub.length as usize];
    let mut decoder = Decoder::with_ip(64, code, stub, DecoderOptions::NONE);
    let mut position = check_displaced(
        elf,
        image,
        &mut decoder,
        site.patch_address,
        stub.wrapping_add(call_offset(site)),
    );
    assert_eq!(position, site.address);
    if site.kind == SiteKind::Passage {
        check_count(site, &mut decoder);
    }
    assert_eq!(image.text_address(decoder.ip()), Some(site.address));
    if site.kind == SiteKind::Spin {
        check_round(image, site, &mut decoder);
        position = check_rest(elf, image, &mut decoder, position);
        assert!(site.patch_address + u64::from(site.patch_length) <= position);
        return;
    }
    check_call(image, site, &mut decoder);
    if !matches!(site.kind, SiteKind::Passage | SiteKind::Binding) {
        // The runtime executes the site instead.
        position += u64::from(site.length);
    }
    if site.stub.continue_at != position {
        assert_eq!(site.stub.continue_at, decoder.ip());
        position = check_displaced(
            elf,
            image,
            &mut decoder,
            position,
            stub.wrapping_add(code.len() as u64 - 5),
        );
        assert_eq!(image.text_address(decoder.ip()), Some(position));
        let back = decoder.decode();
        assert_eq!(back.near_branch_target(), position);
    }
    assert!(!decoder.can_decode(), "nothing follows in the stub");
    assert!(site.patch_address + u64::from(site.patch_length) <= position);
}

/// `incq %gs:passages`, and a jump over the call while the count is not negative.
fn check_count(site: &Site, decoder: &mut Decoder) {
    let count = decoder.decode();
    assert_eq!((count.mnemonic(), count.memory_size()), (Mnemonic::Inc, MemorySize::UInt64));
    assert_eq!(
        (count.memory_segment(), count.memory_base(), count.memory_displacement64()),
        (Register::GS, Register::None, context::PASSAGES)
    );
    let skip = decoder.decode();
    assert_eq!(
        (skip.mnemonic(), skip.near_branch_target()),
        (Mnemonic::Jns, site.stub.continue_at)
    );
}

/// A count of `%gs:rounds` that changes no flag and no register, and a jump over the call while its
/// highest byte is 0.
fn check_round(image: &Image, site: &Site, decoder: &mut Decoder) {
    let mut of_context = |mnemonic: Mnemonic, offset: u64| {
        let instruction = decoder.decode();
        assert_eq!(
            (instruction.mnemonic(), instruction.memory_segment()),
            (mnemonic, Register::GS)
        );
        assert_eq!(instruction.memory_displacement64(), offset);
        if mnemonic == Mnemonic::Mov
            && offset == context::ROUNDS
            && instruction.op0_kind() == OpKind::Register
        {
            let next = decoder.decode();
            assert_eq!((next.mnemonic(), next.memory_displacement64()), (Mnemonic::Lea, 1));
        }
    };
    of_context(Mnemonic::Mov, context::SCRATCH);
    of_context(Mnemonic::Mov, context::ROUNDS);
    of_context(Mnemonic::Mov, context::ROUNDS);
    of_context(Mnemonic::Movzx, context::ROUNDS + 7);
    let skip = decoder.decode();
    assert_eq!(skip.mnemonic(), Mnemonic::Jrcxz);
    check_way_in(image, site, decoder);
    assert_eq!(skip.near_branch_target(), decoder.ip());
    let restore = decoder.decode();
    assert_eq!(
        (restore.op0_register(), restore.memory_displacement64()),
        (Register::RCX, context::SCRATCH)
    );
    assert_eq!(site.stub.continue_at, decoder.ip(), "the runtime restores the register itself");
}

/// `mov %rcx,%gs:scratch` except for system calls, then the call of the runtime.
fn check_call(image: &Image, site: &Site, decoder: &mut Decoder) {
    if site.kind != SiteKind::SystemCall {
        let save = decoder.decode();
        assert_eq!(save.mnemonic(), Mnemonic::Mov);
        assert_eq!(
            (save.memory_segment(), save.memory_displacement64()),
            (Register::GS, context::SCRATCH)
        );
        assert_eq!((save.memory_base(), save.op1_register()), (Register::None, Register::RCX));
    }
    if site.kind == SiteKind::Binding {
        check_slot(decoder);
    }
    check_way_in(image, site, decoder);
}

/// `lea SLOT(%rip),%rcx` with padding, and `mov %rcx,%gs:operand`.
fn check_slot(decoder: &mut Decoder) {
    let lea = decoder.decode();
    assert_eq!((lea.mnemonic(), lea.op0_register()), (Mnemonic::Lea, Register::RCX));
    assert!(lea.is_ip_rel_memory_operand());
    let mut tell = decoder.decode();
    while tell.mnemonic() == Mnemonic::Nop {
        tell = decoder.decode();
    }
    assert_eq!((tell.mnemonic(), tell.op1_register()), (Mnemonic::Mov, Register::RCX));
    assert_eq!(
        (tell.memory_segment(), tell.memory_displacement64()),
        (Register::GS, context::OPERAND)
    );
}

/// `lea CONTINUE(%rip),%rcx`, and a jump to the entry.
fn check_way_in(image: &Image, site: &Site, decoder: &mut Decoder) {
    let lea = decoder.decode();
    assert_eq!((lea.mnemonic(), lea.op0_register()), (Mnemonic::Lea, Register::RCX));
    assert_eq!(lea.ip_rel_memory_address(), site.stub.continue_at);
    let leave = decoder.decode();
    assert_eq!(leave.flow_control(), FlowControl::IndirectBranch);
    assert_eq!(
        leave.ip_rel_memory_address(),
        image.stub_address.wrapping_add(8 * entry(site.kind).index() as u64)
    );
}

fn entry(kind: SiteKind) -> Entry {
    let replaced = SiteKind::REPLACED.iter().position(|replaced| *replaced == kind);
    let other = if kind == SiteKind::Binding { Entry::Binding } else { Entry::Passage };
    replaced.map_or(other, |index| Entry::ALL[index])
}

/// Compares instructions of the original text with those of the stub, up to `stub_end`. Returns the
/// text address after them.
fn check_displaced(
    elf: &[u8],
    image: &Image,
    decoder: &mut Decoder,
    from: u64,
    stub_end: u64,
) -> u64 {
    let mut position = from;
    while decoder.ip() < stub_end {
        let old = decode(original(elf, image, position), position);
        assert_eq!(image.text_address(decoder.ip()), Some(position));
        let new = decoder.decode();
        if old.flow_control() == FlowControl::ConditionalBranch {
            assert_eq!(old.condition_code(), new.condition_code());
            assert_eq!(old.near_branch_target(), new.near_branch_target());
        } else {
            check_same(&old, &new);
        }
        position += old.len() as u64;
    }
    assert_eq!(decoder.ip(), stub_end);
    position
}

/// Compares instructions up to the end of a stub: a jump back, or an instruction that leaves.
/// Returns the text address after them.
fn check_rest(elf: &[u8], image: &Image, decoder: &mut Decoder, from: u64) -> u64 {
    let mut position = from;
    while decoder.can_decode() {
        let at = decoder.ip();
        assert_eq!(image.text_address(at), Some(position));
        let new = decoder.decode();
        if new.flow_control() == FlowControl::UnconditionalBranch
            && new.near_branch_target() == position
        {
            assert!(!decoder.can_decode(), "nothing follows in the stub");
            break;
        }
        let old = decode(original(elf, image, position), position);
        match old.flow_control() {
            FlowControl::Next => check_same(&old, &new),
            flow => {
                assert_eq!((flow, old.mnemonic()), (new.flow_control(), new.mnemonic()));
                assert_eq!(old.near_branch_target(), new.near_branch_target());
            }
        }
        position += old.len() as u64;
    }
    position
}

fn check_same(old: &Instruction, new: &Instruction) {
    assert_eq!(old.code(), new.code());
    assert_eq!(old.len(), new.len());
    assert_eq!(old.flow_control(), FlowControl::Next);
    for operand in 0..old.op_count() {
        assert_eq!(old.op_kind(operand), new.op_kind(operand));
        match old.op_kind(operand) {
            OpKind::Register => assert_eq!(old.op_register(operand), new.op_register(operand)),
            OpKind::Memory => check_memory(old, new),
            kind if is_string_operand(kind) => {}
            _ => assert_eq!(old.immediate(operand), new.immediate(operand)),
        }
    }
}

fn is_string_operand(kind: OpKind) -> bool {
    let name = format!("{kind:?}");
    name.starts_with("Memory")
}

/// Offset of the site's own part in the stub.
fn call_offset(site: &Site) -> u64 {
    let point = site.stub.points.iter().find(|point| point.text_address == site.address);
    u64::from(point.expect("every stub has its site").offset)
}

fn check_memory(old: &Instruction, new: &Instruction) {
    assert_eq!(old.memory_base(), new.memory_base());
    assert_eq!(old.memory_index(), new.memory_index());
    assert_eq!(old.memory_index_scale(), new.memory_index_scale());
    assert_eq!(old.memory_segment(), new.memory_segment());
    assert_eq!(old.memory_displacement64(), new.memory_displacement64());
}
