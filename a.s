	.file	"a.c"
	.text
	.p2align 4
	.globl	f
	.type	f, @function
f:
.LFB1:
	.cfi_startproc
	.p2align 4,,10
	.p2align 3
.L2:
#(insn:TI 7 6 8 2 (set (reg:SI 0 ax [orig:82 _1 ] [82])
#        (mem/v:SI (reg/v/f:DI 5 di [orig:95 q ] [95]) [-1  S4 A32])) "a.c":5:33 81 {*movsi_internal}
#     (nil))
	movl	(%rdi), %eax	# 7	[c=5 l=2]  *movsi_internal/0
#(insn:TI 8 7 10 2 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":5:33 920 {*memory_blockage}
#     (nil))
#(insn:TI 10 8 11 2 (set (reg:CCZ 17 flags)
#        (compare:CCZ (reg:SI 0 ax [orig:82 _1 ] [82])
#            (const_int 0 [0]))) "a.c":5:32 7 {*cmpsi_ccno_1}
#     (expr_list:REG_DEAD (reg:SI 0 ax [orig:82 _1 ] [82])
#        (nil)))
	testl	%eax, %eax	# 10	[c=4 l=2]  *cmpsi_ccno_1/0
#(jump_insn 11 10 12 2 (set (pc)
#        (if_then_else (eq (reg:CCZ 17 flags)
#                (const_int 0 [0]))
#            (label_ref:DI 9)
#            (pc))) "a.c":5:32 891 {*jcc}
#     (expr_list:REG_DEAD (reg:CCZ 17 flags)
#        (int_list:REG_BR_PROB 955630228 (nil)))
# -> 9)
	je	.L2	# 11	[c=13 l=2]  *jcc
#(insn:TI 13 12 15 3 (set (mem/v/c:SI (symbol_ref:DI ("flag") [flags 0x2] <var_decl 0x7f8cfafea090 flag>) [4 flag+0 S4 A32])
#        (const_int 3 [0x3])) "a.c":5:87 81 {*movsi_internal}
#     (nil))
	movl	$3, flag(%rip)	# 13	[c=4 l=10]  *movsi_internal/1
#(insn 15 13 14 3 (set (reg:DI 0 ax [96])
#        (const_int 4 [0x4])) "a.c":5:94 80 {*movdi_internal}
#     (expr_list:REG_EQUIV (const_int 4 [0x4])
#        (nil)))
	movl	$4, %eax	# 15	[c=4 l=5]  *movdi_internal/2
#(insn:TI 14 15 16 3 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":5:94 920 {*memory_blockage}
#     (nil))
#(insn:TI 16 14 17 3 (parallel [
#            (set (reg:DI 0 ax [97])
#                (unspec_volatile:DI [
#                        (mem/v:DI (symbol_ref:DI ("n") [flags 0x2] <var_decl 0x7f8cfafea120 n>) [-1  S8 A64])
#                        (const_int 5 [0x5])
#                    ] UNSPECV_XCHG))
#            (set (mem/v:DI (symbol_ref:DI ("n") [flags 0x2] <var_decl 0x7f8cfafea120 n>) [-1  S8 A64])
#                (reg:DI 0 ax [96]))
#        ]) "a.c":5:94 8810 {atomic_exchangedi}
#     (expr_list:REG_UNUSED (reg:DI 0 ax [97])
#        (nil)))
	xchgq	n(%rip), %rax	# 16	[c=0 l=16]  atomic_exchangedi
#(insn:TI 17 16 18 3 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":5:94 920 {*memory_blockage}
#     (nil))
#(insn:TI 18 17 19 3 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":5:106 920 {*memory_blockage}
#     (nil))
#(insn:TI 19 18 20 3 (set (reg:SI 0 ax [orig:83 _2 ] [83])
#        (mem/v:SI (symbol_ref:DI ("s") [flags 0x2] <var_decl 0x7f8cfafea1b0 s>) [-1  S4 A32])) "a.c":5:106 81 {*movsi_internal}
#     (nil))
	movl	s(%rip), %eax	# 19	[c=6 l=6]  *movsi_internal/0
#(insn:TI 20 19 21 3 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":5:106 920 {*memory_blockage}
#     (nil))
#(insn:TI 21 20 22 3 (set (reg/f:DI 1 dx [orig:98 p ] [98])
#        (mem/f/c:DI (symbol_ref:DI ("p") [flags 0x2] <var_decl 0x7f8cfafea360 p>) [1 p+0 S8 A64])) "a.c":5:108 80 {*movdi_internal}
#     (nil))
	movq	p(%rip), %rdx	# 21	[c=6 l=7]  *movdi_internal/3
#(insn:TI 22 21 23 3 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":5:108 920 {*memory_blockage}
#     (nil))
#(insn:TI 23 22 28 3 (set (reg:SI 2 cx)
#        (sign_extend:SI (mem/v:QI (reg/f:DI 1 dx [orig:98 p ] [98]) [-1  S1 A8]))) "a.c":5:108 160 {extendqisi2}
#     (expr_list:REG_DEAD (reg/f:DI 1 dx [orig:98 p ] [98])
#        (nil)))
	movsbl	(%rdx), %ecx	# 23	[c=9 l=3]  extendqisi2
#(insn:TI 28 23 24 3 (parallel [
#            (set (reg:SI 0 ax [101])
#                (plus:SI (reg:SI 0 ax [orig:83 _2 ] [83])
#                    (reg:SI 2 cx [orig:100 _6 ] [100])))
#            (clobber (reg:CC 17 flags))
#        ]) "a.c":5:108 229 {*addsi_1}
#     (expr_list:REG_DEAD (reg:SI 2 cx [orig:100 _6 ] [100])
#        (expr_list:REG_UNUSED (reg:CC 17 flags)
#            (nil))))
	addl	%ecx, %eax	# 28	[c=4 l=2]  *addsi_1/0
#(insn:TI 24 28 25 3 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":5:108 920 {*memory_blockage}
#     (nil))
#(insn:TI 25 24 26 3 (set (reg/f:DI 1 dx [orig:91 p.1_10 ] [91])
#        (mem/f/c:DI (symbol_ref:DI ("p") [flags 0x2] <var_decl 0x7f8cfafea360 p>) [1 p+0 S8 A64])) "a.c":5:118 80 {*movdi_internal}
#     (expr_list:REG_EQUIV (mem/f/c:DI (symbol_ref:DI ("p") [flags 0x2] <var_decl 0x7f8cfafea360 p>) [1 p+0 S8 A64])
#        (nil)))
	movq	p(%rip), %rdx	# 25	[c=6 l=7]  *movdi_internal/3
#(insn:TI 26 25 30 3 (set (reg:SI 1 dx)
#        (sign_extend:SI (mem/v:HI (plus:DI (reg/f:DI 1 dx [orig:91 p.1_10 ] [91])
#                    (const_int 2 [0x2])) [5 p.1_10->t+0 S2 A16]))) "a.c":5:118 158 {extendhisi2}
#     (nil))
	movswl	2(%rdx), %edx	# 26	[c=13 l=4]  extendhisi2/1
#(insn:TI 30 26 36 3 (parallel [
#            (set (reg:SI 0 ax [99])
#                (plus:SI (reg:SI 0 ax [101])
#                    (reg:SI 1 dx [orig:102 _11 ] [102])))
#            (clobber (reg:CC 17 flags))
#        ]) "a.c":5:115 229 {*addsi_1}
#     (expr_list:REG_DEAD (reg:SI 1 dx [orig:102 _11 ] [102])
#        (expr_list:REG_UNUSED (reg:CC 17 flags)
#            (nil))))
	addl	%edx, %eax	# 30	[c=4 l=2]  *addsi_1/0
#(jump_insn:TI 47 52 48 3 (simple_return) "a.c":5:123 922 {simple_return_internal}
#     (nil)
# -> simple_return)
	ret		# 47	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE1:
	.size	f, .-f
	.p2align 4
	.globl	g
	.type	g, @function
g:
.LFB2:
	.cfi_startproc
#(insn:TI 5 22 7 2 (set (reg:DF 20 xmm0 [orig:82 d.2_1 ] [82])
#        (mem/v/c:DF (symbol_ref:DI ("d") [flags 0x2] <var_decl 0x7f8cfafea240 d>) [3 d+0 S8 A64])) "a.c":6:18 141 {*movdf_internal}
#     (nil))
	movsd	d(%rip), %xmm0	# 5	[c=6 l=8]  *movdf_internal/14
#(insn 7 5 8 2 (set (reg:DF 20 xmm0 [orig:83 _2 ] [83])
#        (plus:DF (reg:DF 20 xmm0 [orig:82 d.2_1 ] [82])
#            (mem/u/c:DF (symbol_ref/u:DI ("*.LC0") [flags 0x2]) [0  S8 A64]))) "a.c":6:18 1072 {*fop_df_comm}
#     (nil))
	addsd	.LC0(%rip), %xmm0	# 7	[c=18 l=8]  *fop_df_comm/1
#(insn:TI 8 7 9 2 (set (mem/v/c:DF (symbol_ref:DI ("d") [flags 0x2] <var_decl 0x7f8cfafea240 d>) [3 d+0 S8 A64])
#        (reg:DF 20 xmm0 [orig:83 _2 ] [83])) "a.c":6:18 141 {*movdf_internal}
#     (expr_list:REG_DEAD (reg:DF 20 xmm0 [orig:83 _2 ] [83])
#        (nil)))
	movsd	%xmm0, d(%rip)	# 8	[c=4 l=8]  *movdf_internal/15
#(insn:TI 9 8 10 2 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":6:31 920 {*memory_blockage}
#     (nil))
#(insn:TI 10 9 42 2 (set (reg:DI 0 ax [orig:84 _3 ] [84])
#        (mem/v:DI (symbol_ref:DI ("ad") [flags 0x2] <var_decl 0x7f8cfafea2d0 ad>) [-1  S8 A64])) "a.c":6:31 80 {*movdi_internal}
#     (nil))
	movq	ad(%rip), %rax	# 10	[c=6 l=7]  *movdi_internal/3
#(insn:TI 42 10 11 2 (set (reg:DF 21 xmm1 [100])
#        (reg:DF 0 ax [orig:84 _3 ] [84])) "a.c":6:29 141 {*movdf_internal}
#     (expr_list:REG_DEAD (reg:DF 0 ax [orig:84 _3 ] [84])
#        (nil)))
	movq	%rax, %xmm1	# 42	[c=4 l=5]  *movdf_internal/21
#(insn:TI 11 42 14 2 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":6:31 920 {*memory_blockage}
#     (nil))
#(insn:TI 14 11 15 2 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":6:29 920 {*memory_blockage}
#     (nil))
#(insn:TI 15 14 43 2 (set (reg:DF 21 xmm1 [100])
#        (plus:DF (reg:DF 21 xmm1 [100])
#            (mem/u/c:DF (symbol_ref/u:DI ("*.LC1") [flags 0x2]) [0  S8 A64]))) "a.c":6:29 1072 {*fop_df_comm}
#     (nil))
	addsd	.LC1(%rip), %xmm1	# 15	[c=18 l=8]  *fop_df_comm/1
#(insn:TI 43 15 16 2 (set (reg:DF 0 ax [95])
#        (reg:DF 21 xmm1 [100])) "a.c":6:29 141 {*movdf_internal}
#     (expr_list:REG_DEAD (reg:DF 21 xmm1 [100])
#        (nil)))
	movq	%xmm1, %rax	# 43	[c=4 l=5]  *movdf_internal/20
#(insn:TI 16 43 17 2 (parallel [
#            (set (reg:DI 0 ax [96])
#                (unspec_volatile:DI [
#                        (mem/v:DI (symbol_ref:DI ("ad") [flags 0x2] <var_decl 0x7f8cfafea2d0 ad>) [-1  S8 A64])
#                        (const_int 5 [0x5])
#                    ] UNSPECV_XCHG))
#            (set (mem/v:DI (symbol_ref:DI ("ad") [flags 0x2] <var_decl 0x7f8cfafea2d0 ad>) [-1  S8 A64])
#                (reg:DI 0 ax [95]))
#        ]) "a.c":6:29 8810 {atomic_exchangedi}
#     (expr_list:REG_UNUSED (reg:DI 0 ax [96])
#        (nil)))
	xchgq	ad(%rip), %rax	# 16	[c=0 l=16]  atomic_exchangedi
#(insn:TI 17 16 18 2 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":6:29 920 {*memory_blockage}
#     (nil))
#(insn:TI 18 17 20 2 (set (mem/v:BLK (scratch:DI) [0  A8])
#        (unspec:BLK [
#                (mem/v:BLK (scratch:DI) [0  A8])
#            ] UNSPEC_MEMORY_BLOCKAGE)) "a.c":6:39 920 {*memory_blockage}
#     (nil))
#(insn:TI 20 18 21 2 (set (mem/v:SI (symbol_ref:DI ("s") [flags 0x2] <var_decl 0x7f8cfafea1b0 s>) [-1  S4 A32])
#        (unspec:SI [
#                (const_int 3 [0x3]) repeated x2
#            ] UNSPEC_STA)) "a.c":6:39 8786 {atomic_storesi_1}
#     (nil))
	movl	$3, s(%rip)	# 20	[c=4 l=16]  atomic_storesi_1
#(insn:TI 21 20 44 2 (set (reg:SI 0 ax [orig:88 flag.5_7 ] [88])
#        (mem/v/c:SI (symbol_ref:DI ("flag") [flags 0x2] <var_decl 0x7f8cfafea090 flag>) [4 flag+0 S4 A32])) "a.c":6:100 81 {*movsi_internal}
#     (nil))
	movl	flag(%rip), %eax	# 21	[c=6 l=6]  *movsi_internal/0
#(insn:TI 44 21 24 2 (set (reg:CCZ 17 flags)
#        (compare:CCZ (and:QI (reg:QI 0 ax [orig:88 flag.5_7 ] [88])
#                (const_int 4 [0x4]))
#            (const_int 0 [0]))) "a.c":6:94 515 {*testqi_1_maybe_si}
#     (expr_list:REG_DEAD (reg:QI 0 ax [orig:88 flag.5_7 ] [88])
#        (nil)))
	testb	$4, %al	# 44	[c=4 l=2]  *testqi_1_maybe_si/1
#(jump_insn 24 44 25 2 (set (pc)
#        (if_then_else (eq (reg:CCZ 17 flags)
#                (const_int 0 [0]))
#            (label_ref:DI 29)
#            (pc))) "a.c":6:94 891 {*jcc}
#     (expr_list:REG_DEAD (reg:CCZ 17 flags)
#        (int_list:REG_BR_PROB 536870916 (nil)))
# -> 29)
	je	.L7	# 24	[c=13 l=2]  *jcc
#(insn:TI 26 25 27 3 (set (reg:SI 0 ax [orig:90 flag.6_9 ] [90])
#        (mem/v/c:SI (symbol_ref:DI ("flag") [flags 0x2] <var_decl 0x7f8cfafea090 flag>) [4 flag+0 S4 A32])) "a.c":6:109 81 {*movsi_internal}
#     (nil))
	movl	flag(%rip), %eax	# 26	[c=6 l=6]  *movsi_internal/0
#(insn:TI 27 26 28 3 (parallel [
#            (set (reg:SI 0 ax [orig:91 _10 ] [91])
#                (plus:SI (reg:SI 0 ax [orig:90 flag.6_9 ] [90])
#                    (const_int 1 [0x1])))
#            (clobber (reg:CC 17 flags))
#        ]) "a.c":6:109 229 {*addsi_1}
#     (expr_list:REG_UNUSED (reg:CC 17 flags)
#        (nil)))
	addl	$1, %eax	# 27	[c=4 l=3]  *addsi_1/0
#(insn:TI 28 27 29 3 (set (mem/v/c:SI (symbol_ref:DI ("flag") [flags 0x2] <var_decl 0x7f8cfafea090 flag>) [4 flag+0 S4 A32])
#        (reg:SI 0 ax [orig:91 _10 ] [91])) "a.c":6:109 81 {*movsi_internal}
#     (expr_list:REG_DEAD (reg:SI 0 ax [orig:91 _10 ] [91])
#        (nil)))
	movl	%eax, flag(%rip)	# 28	[c=4 l=6]  *movsi_internal/1
.L7:
#APP
# 7 "a.c" 1
	movl $1, flag(%rip); addl $3, flag(%rip)
	movl flag(%rip), %eax
# 0 "" 2
#NO_APP
#(jump_insn:TI 47 49 48 4 (simple_return) "a.c":7:84 922 {simple_return_internal}
#     (nil)
# -> simple_return)
	ret		# 47	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE2:
	.size	g, .-g
	.section	.text.startup,"ax",@progbits
	.p2align 4
	.globl	main
	.type	main, @function
main:
.LFB3:
	.cfi_startproc
#(insn:TI 5 2 7 2 (set (reg/f:DI 5 di [83])
#        (symbol_ref:DI ("s") [flags 0x2] <var_decl 0x7f8cfafea1b0 s>)) "a.c":8:24 80 {*movdi_internal}
#     (expr_list:REG_EQUIV (symbol_ref:DI ("s") [flags 0x2] <var_decl 0x7f8cfafea1b0 s>)
#        (nil)))
	leaq	s(%rip), %rdi	# 5	[c=1 l=7]  *movdi_internal/4
#(call_insn/j:TI 7 5 8 2 (set (reg:SI 0 ax)
#        (call (mem:QI (symbol_ref:DI ("f") [flags 0x3] <function_decl 0x7f8cfafe9300 f>) [0 f S1 A8])
#            (const_int 0 [0]))) "a.c":8:24 913 {*sibcall_value}
#     (expr_list:REG_DEAD (reg:DI 5 di)
#        (expr_list:REG_CALL_DECL (symbol_ref:DI ("f") [flags 0x3] <function_decl 0x7f8cfafe9300 f>)
#            (expr_list:REG_EH_REGION (const_int 0 [0])
#                (nil))))
#    (expr_list:DI (use (reg:DI 5 di))
#        (nil)))
	jmp	f	# 7	[c=10 l=5]  *sibcall_value
	.cfi_endproc
.LFE3:
	.size	main, .-main
	.globl	p
	.bss
	.align 8
	.type	p, @object
	.size	p, 8
p:
	.zero	8
	.globl	ad
	.align 8
	.type	ad, @object
	.size	ad, 8
ad:
	.zero	8
	.globl	d
	.align 8
	.type	d, @object
	.size	d, 8
d:
	.zero	8
	.local	s
	.comm	s,4,4
	.globl	n
	.align 8
	.type	n, @object
	.size	n, 8
n:
	.zero	8
	.globl	flag
	.align 4
	.type	flag, @object
	.size	flag, 4
flag:
	.zero	4
	.section	.rodata.cst8,"aM",@progbits,8
	.align 8
.LC0:
	.long	0
	.long	1073217536
	.align 8
.LC1:
	.long	0
	.long	1072693248
	.ident	"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0"
	.section	.note.GNU-stack,"",@progbits
