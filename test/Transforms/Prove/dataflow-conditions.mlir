// RUN: heddle-opt %s --split-input-file --prove-dataflow --verify-diagnostics

// A call that may be skipped, and the copy that then gives its result: a
// command without a condition reads the result. What the call alone writes is
// read by a call with the same condition.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.condition @h.0.kept <"h.0", 0.5>
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @fwd(%x: memref<16xf32>, %y: memref<16xf32>, %s: memref<16xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%y, %s) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
  plan.sequence @bwd(%s: memref<16xf32>, %y: memref<16xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @relu(%s, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
  plan.sequence @train() attributes {frame_bytes = 384 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 3] owner "activations" : memref<16xf32>
    %s = plan.buffer at 128 live [1, 2] owner "activations" : memref<16xf32>
    %z = plan.buffer at 192 live [3, 3] owner "activations" : memref<16xf32>
    plan.copy %y, %x {plan.unless = @h.0.kept} : memref<16xf32>, memref<16xf32>
    plan.call @fwd(%x, %y, %s) frame 256 path "h.0" {plan.when = @h.0.kept} : memref<16xf32>, memref<16xf32>, memref<16xf32>
    plan.call @bwd(%s, %y) frame 256 path "h.0" {plan.when = @h.0.kept} : memref<16xf32>, memref<16xf32>
    plan.launch @relu(%y, %z) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// The result has no value when the call is skipped.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.condition @h.0.kept <"h.0", 0.5>
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @fwd(%x: memref<16xf32>, %y: memref<16xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
  plan.sequence @train() attributes {frame_bytes = 384 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 1] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 1] owner "activations" : memref<16xf32>
    %z = plan.buffer at 192 live [1, 1] owner "activations" : memref<16xf32>
    plan.call @fwd(%x, %y) frame 256 path "h.0" {plan.when = @h.0.kept} : memref<16xf32>, memref<16xf32>
    // expected-error @+1 {{H0914: operand 0 is read, but its bytes [64, 128) were not written, or were overwritten by another buffer}}
    plan.launch @relu(%y, %z) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// The calls have different conditions: the second may run without the first.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.condition @h.0.kept <"h.0", 0.5>
  plan.condition @h.1.kept <"h.1", 0.5>
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @fwd(%x: memref<16xf32>, %y: memref<16xf32>) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{H0914: operand 0 is read, but its bytes [64, 128) were not written, or were overwritten by another buffer}}
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
  plan.sequence @train() attributes {frame_bytes = 384 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 1] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 1] owner "activations" : memref<16xf32>
    %z = plan.buffer at 192 live [1, 1] owner "activations" : memref<16xf32>
    plan.call @fwd(%x, %y) frame 256 path "h.0" {plan.when = @h.0.kept} : memref<16xf32>, memref<16xf32>
    plan.call @fwd(%y, %z) frame 256 path "h.1" {plan.when = @h.1.kept} : memref<16xf32>, memref<16xf32>
    plan.end
  }
}

// -----

// The copy and the call happen in the same steps: in the others the result has
// no value.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.condition @h.0.kept <"h.0", 0.5>
  plan.condition @h.1.kept <"h.1", 0.5>
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @fwd(%x: memref<16xf32>, %y: memref<16xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
  plan.sequence @train() attributes {frame_bytes = 384 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 1] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 2] owner "activations" : memref<16xf32>
    %z = plan.buffer at 192 live [2, 2] owner "activations" : memref<16xf32>
    plan.copy %y, %x {plan.unless = @h.1.kept} : memref<16xf32>, memref<16xf32>
    plan.call @fwd(%x, %y) frame 256 path "h.0" {plan.when = @h.0.kept} : memref<16xf32>, memref<16xf32>
    // expected-error @+1 {{H0914: operand 0 is read, but its bytes [64, 128) were not written, or were overwritten by another buffer}}
    plan.launch @relu(%y, %z) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}
