//! The runtime's decoder of single instructions (`runtime/place/displaced.c`), compared with a full
//! disassembler on the text of libraries and on random bytes.

use iced_x86::{
    ConditionCode, CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
};
use object::{Object, ObjectSection, SectionKind};
use retake_testing::c::compiler;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const RECORD_BYTES: usize = 16;
const ADDRESS: u64 = 0x1000_0000;
/// Bits of the status flags that conditions depend on: carry, parity, zero, sign, overflow.
const ASKED: [u32; 5] = [0, 2, 6, 7, 11];

const MAIN: &str = r#"
#include <stdio.h>
#include FILE_NAME
int main(void)
{
	unsigned char code[16];
	u64 flags;
	while (fread(code, 1, 16, stdin) == 16 && fread(&flags, 1, 8, stdin) == 8) {
		u64 answer[3] = { displaced_length(code), displaced_branch(code, 0x10000000, flags), displaced_in_registers(code) };
		fwrite(answer, 1, sizeof answer, stdout);
	}
	return 0;
}
"#;

/// The runtime's answers: the length, the target of a branch, and the length again if only
/// registers are accessed.
fn ask(name: &str, cases: &[([u8; RECORD_BYTES], u64)]) -> Vec<[u64; 3]> {
    let folder =
        std::env::temp_dir().join(format!("retake-displaced-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/place/displaced.c");
    fs::write(folder.join("main.c"), MAIN.replace("FILE_NAME", &format!("{source:?}"))).unwrap();
    let compiled = Command::new(compiler())
        .args(["-O1", "-fsanitize=undefined", "-o", "main", "main.c", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime"))
        .current_dir(&folder)
        .status()
        .expect("gcc is needed to build the runtime");
    assert!(compiled.success());
    let mut child = Command::new(folder.join("main"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes: Vec<u8> = cases
        .iter()
        .flat_map(|(code, flags)| code.iter().copied().chain(flags.to_le_bytes()))
        .collect();
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let numbers: Vec<u64> =
        output.stdout.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    assert_eq!(numbers.len(), 3 * cases.len());
    numbers.as_chunks().0.to_vec()
}

fn decode(code: &[u8]) -> Instruction {
    Decoder::with_ip(64, code, ADDRESS, DecoderOptions::NONE).decode()
}

/// Whether the instruction would have another effect at another address, or reveals its address.
fn depends_on_its_place(instruction: &Instruction) -> bool {
    use Mnemonic::{Cpuid, Div, Idiv, Popf, Popfq, Pushf, Pushfq, Rdtsc, Rdtscp, Syscall, Xbegin};
    instruction.is_ip_rel_memory_operand()
        || instruction.flow_control() != FlowControl::Next
        || matches!(
            instruction.mnemonic(),
            Cpuid | Div | Idiv | Popf | Popfq | Pushf | Pushfq | Rdtsc | Rdtscp | Syscall | Xbegin
        )
        || instruction.op_kinds().any(|kind| matches!(kind, OpKind::NearBranch64))
        || instruction.cpuid_features().iter().any(|feature| {
            matches!(feature, CpuidFeature::FPU | CpuidFeature::FPU287 | CpuidFeature::FPU387)
        })
}

/// Whether the instruction's effect can be seen by another thread, or it waits for another thread.
fn touches_memory(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let accesses = factory
        .info(instruction)
        .used_memory()
        .iter()
        .any(|memory| memory.access() != OpAccess::NoMemAccess);
    accesses || instruction.mnemonic() == Mnemonic::Pause
}

/// The next address after a jump, by the disassembler and an evaluation of the flags here.
fn target(instruction: &Instruction, flags: u64) -> u64 {
    let [carry, parity, zero, sign, overflow] = ASKED.map(|bit| flags >> bit & 1 != 0);
    let jumps = match instruction.condition_code() {
        ConditionCode::None => true,
        ConditionCode::o => overflow,
        ConditionCode::no => !overflow,
        ConditionCode::b => carry,
        ConditionCode::ae => !carry,
        ConditionCode::e => zero,
        ConditionCode::ne => !zero,
        ConditionCode::be => carry || zero,
        ConditionCode::a => !carry && !zero,
        ConditionCode::s => sign,
        ConditionCode::ns => !sign,
        ConditionCode::p => parity,
        ConditionCode::np => !parity,
        ConditionCode::l => sign != overflow,
        ConditionCode::ge => sign == overflow,
        ConditionCode::le => zero || sign != overflow,
        ConditionCode::g => !zero && sign == overflow,
    };
    if jumps { instruction.near_branch_target() } else { instruction.next_ip() }
}

/// Compares the answers. Returns how many instructions the runtime handles, and how many are valid.
fn compare(name: &str, cases: &[([u8; RECORD_BYTES], u64)]) -> (usize, usize) {
    let (mut known, mut valid) = (0, 0);
    for ((code, flags), [length, place, in_registers]) in cases.iter().zip(ask(name, cases)) {
        let instruction = decode(&code[..15]);
        let about = || {
            format!("{:02x?} is {:?}, {} bytes", &code[..15], instruction.code(), instruction.len())
        };
        valid += usize::from(!instruction.is_invalid());
        if place != 0 {
            let leads = matches!(
                instruction.flow_control(),
                FlowControl::ConditionalBranch
                    | FlowControl::UnconditionalBranch
                    | FlowControl::Call
            );
            assert!(leads, "{}", about());
            assert_eq!(place, target(&instruction, *flags), "{} with flags {flags:#x}", about());
            known += 1;
        } else if length != 0 && !instruction.is_invalid() {
            assert!(!depends_on_its_place(&instruction), "{}", about());
            assert_eq!(length as usize, instruction.len(), "{}", about());
            assert!(
                in_registers == 0 || (in_registers == length && !touches_memory(&instruction)),
                "{}",
                about()
            );
            known += 1;
        }
    }
    (known, valid)
}

fn record(code: &[u8]) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..code.len().min(15)].copy_from_slice(&code[..code.len().min(15)]);
    record
}

/// A fixed sequence of pseudo-random numbers.
fn numbers() -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ state >> 32
    }
}

#[test]
fn instructions_of_libraries() {
    let mut flags = numbers();
    for name in ["libc.so.6", "libm.so.6", "libstdc++.so.6", "libcrypto.so.3"] {
        let bytes = fs::read(Path::new("/lib/x86_64-linux-gnu").join(name))
            .expect("a library that gcc and git need");
        let file = object::File::parse(&*bytes).unwrap();
        let mut cases = Vec::new();
        for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            let text = section.data().unwrap();
            let mut decoder = Decoder::with_ip(64, text, section.address(), DecoderOptions::NONE);
            while decoder.can_decode() && cases.len() < 400_000 {
                let at = decoder.position();
                if !decoder.decode().is_invalid() {
                    cases.push((record(&text[at..]), flags() & 0xfff));
                }
            }
        }
        let (known, valid) = compare(name, &cases);
        println!("{name}: {known} of {valid}");
        assert!(10 * known > 6 * valid, "{name}: only {known} of {valid}");
    }
}

#[test]
fn random_bytes() {
    const PREFIXES: [u8; 16] = [
        0x66, 0xf2, 0xf3, 0xf0, 0x48, 0x41, 0x4f, 0x64, 0x2e, 0x3e, 0x65, 0x44, 0xc4, 0xc5, 0x62,
        0x0f,
    ];
    let mut next = numbers();
    let cases: Vec<_> = (0..600_000)
        .map(|_| {
            let mut code = [0; RECORD_BYTES];
            code[..8].copy_from_slice(&next().to_le_bytes());
            code[8..15].copy_from_slice(&next().to_le_bytes()[..7]);
            for place in 0..next() % 4 {
                code[place as usize] = PREFIXES[next() as usize % PREFIXES.len()];
            }
            (code, next() & 0xfff)
        })
        .collect();
    let (known, valid) = compare("random", &cases);
    assert!(3 * known > valid, "only {known} of {valid}");
}
