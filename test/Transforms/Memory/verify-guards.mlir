// RUN: heddle-opt %s --split-input-file --memory-verify --verify-diagnostics

// A store that only steps with a condition run ends at a wait of these steps.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.condition @a <"h.0", 5.000000e-01 : f64>
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 5] owner "activations" : memref<16xf32>
    %y = plan.buffer at 0 live [6, 6] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 5] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute {plan.when = @a}
    plan.wait %ready on store {plan.when = @a}
    plan.copy %p, %x on store {plan.when = @a} : memref<16xf32>, memref<16xf32>
    %stored = plan.record store {plan.when = @a}
    plan.wait %stored {plan.when = @a}
    plan.fill %y : memref<16xf32>
    plan.end
  }
}

// -----

// A store of all steps does not end there, directly or through another stream.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.condition @a <"h.0", 5.000000e-01 : f64>
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 8] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 11] owner "activations" : memref<16xf32>
    %q = plan.buffer at 64 in pinned live [0, 11] owner "activations" : memref<16xf32>
    %y = plan.buffer at 64 live [6, 11] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %p, %x on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store
    plan.wait %stored on copy {plan.when = @a}
    %made = plan.record compute {plan.when = @a}
    plan.wait %made on copy {plan.when = @a}
    plan.copy %y, %q on copy {plan.when = @a} : memref<16xf32>, memref<16xf32>
    %fetched = plan.record copy {plan.when = @a}
    plan.wait %fetched {plan.when = @a}
    // expected-error @+1 {{H0913: command 11 uses a buffer that is live in [0, 8]}}
    plan.wait %stored
    plan.end
  }
}

// -----

// It is not known in all steps when the second fetch begins.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.condition @a <"h.0", 5.000000e-01 : f64>
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %p = plan.buffer at 0 in pinned live [0, 4] owner "activations" : memref<16xf32>
    %y = plan.buffer at 0 live [0, 4] owner "activations" : memref<16xf32>
    %made = plan.record compute {plan.when = @a}
    plan.wait %made on copy {plan.when = @a}
    // expected-error @+2 {{H0924: is on the stream copy, which waits for nothing of this block before it}}
    // expected-note @+1 {{help: put %t = plan.record compute and plan.wait %t on copy before it}}
    plan.copy %y, %p on copy : memref<16xf32>, memref<16xf32>
    %fetched = plan.record copy
    plan.wait %fetched
    plan.end
  }
}
