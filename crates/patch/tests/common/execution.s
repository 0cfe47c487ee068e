# The functions under test of execution.rs, each with its own form of site, and the stand-in for the
# runtime as data.
    .macro function name
    .p2align 4
    .globl \name
    .type \name, @function
\name:
    .endm
    .macro done name
    .size \name, .-\name
    .endm
    .text
    function plain              # the usual pair
    mov $39, %eax
    syscall
    ret
    done plain
    function wide               # a 7-byte mov: the jump, then two bytes of int3
    mov $39, %rax
    syscall
    ret
    done wide
    function conditional        # like read() of glibc
    cmpb $0, flag(%rip)
    je 1f
    xor %eax, %eax
    syscall
    ret
1:  mov $0x7777, %eax
    ret
    done conditional
    function padded             # by way of padding
    xor %eax, %eax
    syscall
    ret
    done padded
    function relative           # a displaced instruction with an address relative to itself
    mov number(%rip), %eax
    syscall
    ret
    done relative
    function counter_after      # displaced after the site
    mov $99, %ecx
    jmp 2f
    .p2align 4
2:  rdtsc
    shl $32, %rdx
    or %rdx, %rax
    add %rcx, %rax
    ret
    done counter_after
    function counter_before     # displaced before it
    mov number(%rip), %esi
    rdtsc
    add %rsi, %rax
    ret
    done counter_before
    function counter_pair
    mov $5, %ecx
    rdtscp
    mov %ecx, %eax
    ret
    done counter_pair
    function identify           # between pushes
    push %rbx
    xor %ecx, %ecx
    mov $7, %eax
    cpuid
    lea (%rbx,%rcx), %eax
    pop %rbx
    ret
    done identify
    function pthread_mutex_lock # goes back to its beginning, and returns with padding behind
    mov (%rdi), %rax
    lea 3(%rax), %rdx
    lock cmpxchg %rdx, (%rdi)
    jne pthread_mutex_lock
    mov %rdx, %rax
    ret
    done pthread_mutex_lock
    function pthread_tail       # leaves by a conditional and by an ordinary jump
    mov number(%rip), %eax
    cmp $5, %rdi
    ja outside
    lea 1(%rdi), %rdi
    cmp $3, %rdi
    je 1f
    jmp outside
1:  push %rbx
    mov $77, %eax
    pop %rbx
    ret
    done pthread_tail
    function pthread_bare       # a return that stays, because others jump to it
    mov number(%rip), %eax
    test %rdi, %rdi
    je 1f
    mov number(%rip), %ecx
    mov $5, %eax
    cmp $2, %rdi
    je 2f
1:  ret
2:  mov $6, %eax
    ret
    done pthread_bare
    function spin_pause         # flags live on over the pause
    xor %eax, %eax
    stc
1:  pause
    adc $0, %eax
    cmp %edi, %eax
    jb 1b
    ret
    done spin_pause
    function spin_look          # a loop that does nothing but look
1:  mov (%rdi), %eax
    test %eax, %eax
    je 1b
    ret
    done spin_look
    function outside
    lea 1000(%rdi), %rax
    ret
    done outside
    function pthread_split      # with a part elsewhere
    mov number(%rip), %eax
    test %rdi, %rdi
    je pthread_split.cold
1:  lea 7(%rdi), %rax
    add %rsi, %rax
    ret
    done pthread_split
    .type pthread_split.cold, @function
pthread_split.cold:
    mov $100, %edi
    cmp $4, %rsi
    jne 1b
    mov $4, %eax
    ret
    done pthread_split.cold
    function atomic_add         # a section of its own: the function may call anything
    mov $5, %eax
    lock xadd %eax, (%rdi)
    adc %rsi, %rax
    test %rdx, %rdx
    jne 1f
    ret
1:  call *%rdx
    ret
    done atomic_add
    function atomic_skip        # glibc jumps over LOCK prefixes
    mov (%rdi), %rax
    lea 1(%rax), %rcx
    cmp $0, %rsi
    je 1f
    .byte 0xf0
1:  cmpxchg %rcx, (%rdi)
    sete %al
    movzbl %al, %eax
    test %rdx, %rdx
    jne 2f
    ret
2:  call *%rdx
    ret
    done atomic_skip
    function atomic_short       # two bytes, between instructions that need and give flags
    stc
    xchg %esi, (%rdi)
    adc $0, %esi
    mov %rsi, %rax
    test %rdx, %rdx
    jne 1f
    ret
1:  call *%rdx
    ret
    done atomic_short
    .section .rodata
    .p2align 4
number: .long 39
flag:   .byte 1
    .p2align 4
    .globl stand_in
    .globl stand_in_end
stand_in:
    jmp call
    .org stand_in + 0x10
    jmp counter
    .org stand_in + 0x20
    jmp counter_and_core
    .org stand_in + 0x30
    jmp features
    .org stand_in + 0x40
entries: .quad 0
begins: .quad 0
ends:   .quad 0
saved:  .quad 0
fails:  .quad 0
looks:  .quad 0
    .org stand_in + 0x90
    jmp begin
    .org stand_in + 0xa0
    jmp end
    .org stand_in + 0xb0
    jmp compare
    .org stand_in + 0xc0
    jmp end
    .org stand_in + 0xf0
    jmp passage
compare:                        # or what one does that fails
    mov %rcx, saved(%rip)
    mov fails(%rip), %rcx
    jrcxz 1f
    mov saved(%rip), %rcx
    movzbl -1(%rcx), %eax
    add %rax, saved(%rip)
    mov $5555, %eax
    mov %gs:0x10, %rcx
    jmp *saved(%rip)
1:  mov saved(%rip), %rcx
    .macro counting name, counter   # changes no flags
\name:
    mov %rcx, saved(%rip)
    mov \counter(%rip), %rcx
    lea 1(%rcx), %rcx
    mov %rcx, \counter(%rip)
    mov %gs:0x10, %rcx
    jmp *saved(%rip)
    .endm
    counting begin, begins
    counting end, ends
    counting passage, looks
call:
    incq entries(%rip)
    mov %rcx, saved(%rip)
    syscall
    jmp *saved(%rip)
counter:
    mov %rcx, saved(%rip)
    mov $0x1000, %eax
    mov $2, %edx
    mov %gs:0x10, %rcx
    jmp *saved(%rip)
counter_and_core:
    mov %rcx, saved(%rip)
    mov $0x1000, %eax
    mov $2, %edx
    mov $42, %ecx
    jmp *saved(%rip)
features:
    mov %rcx, saved(%rip)
    mov %gs:0x10, %rcx
    lea 100(%rax,%rcx), %rbx
    mov $1000, %ecx
    jmp *saved(%rip)
stand_in_end:
