// RUN: heddle-opt %s --split-input-file --memory-verify --verify-diagnostics

// What the stream copy uses is live from the point that it waits for until
// compute waits for it. Other memory has places of its own.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.state @v at 0 in host : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 5] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 5] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 4] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 5] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    // expected-error @+1 {{H0913: command 5 uses a buffer that is live in [0, 4]}}
    plan.wait %copied
    plan.end
  }
}

// -----

// It may begin as soon as command 1 is done: %p is taken too late.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 5] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [3, 5] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    // expected-error @+2 {{H0913: command 3 uses a buffer that is live in [3, 5]}}
    // expected-note @+1 {{it may run as soon as command 1 is done}}
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    plan.end
  }
}

// -----

// Bytes that the copy still reads are not another buffer's.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    // expected-error @+1 {{H0913: bytes [0, 64) are shared with another buffer that is in use at the same command}}
    %x = plan.buffer at 0 live [0, 6] owner "activations" : memref<16xf32>
    // expected-note @+1 {{the other one}}
    %y = plan.buffer at 0 live [5, 7] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 6] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.fill %y : memref<16xf32>
    plan.wait %copied
    plan.fill %y : memref<16xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 2] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [0, 2] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    // expected-error @+2 {{H0924: is on the stream copy, which waits for nothing of this block before it}}
    // expected-note @+1 {{help: put %t = plan.record compute and plan.wait %t on copy before it}}
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 3] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    // expected-error @+2 {{H0924: is on the stream copy, and compute does not wait for it before its block ends}}
    // expected-note @+1 {{help: put %t = plan.record copy and plan.wait %t after it}}
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    plan.end
  }
}

// -----

// A loop cannot wait for what was recorded before it.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [0, 9] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.loop 2 {
    ^bb0(%i: index):
      // expected-error @+1 {{H0924: waits for a point of another block}}
      plan.wait %ready on copy
      plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
      %copied = plan.record copy
      plan.wait %copied
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 0] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [0, 0] owner "activations" : memref<16xf32>
    // expected-error @+2 {{H0925: uses pinned memory, which plan.copy and plan.fill alone reach}}
    // expected-note @+1 {{help: copy it to a buffer of the device}}
    plan.launch @relu(%x, %p) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @layer() attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{H0925: is in pinned memory, where only a step program has a frame}}
    %p = plan.buffer at 0 in pinned live [0, 0] owner "activations" : memref<16xf32>
    plan.fill %p : memref<16xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    // expected-error @+1 {{H0913: bytes [4064, 4128) leave the frame of 4096 bytes}}
    %p = plan.buffer at 4064 in pinned live [0, 0] owner "activations" : memref<16xf32>
    plan.fill %p : memref<16xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{H0913: bytes [4096, 4160) leave the persistent region of 4096 bytes}}
  plan.state @v at 4096 in host : tensor<16xf32> {like = {}}
}

// -----

// What a kernel on the host uses is live until compute waits for it, also
// through the stream copy.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @v at 0 in host : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 11] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 11] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied on host
    plan.launch @sum(%v, %p) on host : (memref<16xf32>, memref<16xf32>) -> ()
    %made = plan.record host
    plan.wait %made on copy
    plan.copy %x, %v on copy : memref<16xf32>, memref<16xf32>
    %back = plan.record copy
    plan.wait %back
    plan.end
  }
}

// -----

// The copy back is not waited for: neither is the kernel.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @v at 0 in host : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 10] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 10] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    // expected-error @+2 {{H0924: is on the stream copy, and compute does not wait for it before its block ends}}
    // expected-note @+1 {{help: put %t = plan.record copy and plan.wait %t after it}}
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied on host
    plan.launch @sum(%v, %p) on host : (memref<16xf32>, memref<16xf32>) -> ()
    %made = plan.record host
    plan.wait %made on copy
    plan.copy %x, %v on copy : memref<16xf32>, memref<16xf32>
    %back = plan.record copy
    plan.end
  }
}

// -----

// Of a kernel nobody knows the end.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @v at 0 in host : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 6] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 6] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied on host
    plan.wait %copied
    // expected-error @+2 {{H0924: is on the stream host, and compute does not wait for it before its block ends}}
    // expected-note @+1 {{help: put %t = plan.record host and plan.wait %t after it}}
    plan.launch @sum(%v, %p) on host : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// It begins at no point of compute.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @v at 0 in host : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 6] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 6] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    // expected-error @+2 {{H0924: is on the stream host, which waits for nothing of this block before it}}
    // expected-note @+1 {{help: put %t = plan.record compute and plan.wait %t on host before it}}
    plan.launch @sum(%v, %p) on host : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// The pinned bytes are given away while the host reads them.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @v at 0 in host : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 11] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 6] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied on host
    plan.launch @sum(%v, %p) on host : (memref<16xf32>, memref<16xf32>) -> ()
    %made = plan.record host
    plan.wait %made on copy
    plan.copy %x, %v on copy : memref<16xf32>, memref<16xf32>
    %back = plan.record copy
    // expected-error @+1 {{H0913: command 11 uses a buffer that is live in [1, 6]}}
    plan.wait %back
    plan.end
  }
}

// -----

// A GPU's memory is out of the reach of its host's kernels.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, host 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @v at 0 in host : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 11] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [1, 11] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %x on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied on host
    // expected-error @+2 {{H0925: uses device memory, which no kernel on the host reaches}}
    // expected-note @+1 {{help: copy it to a buffer of the host, as plan.buffer in pinned}}
    plan.launch @sum(%v, %x) on host : (memref<16xf32>, memref<16xf32>) -> ()
    %made = plan.record host
    plan.wait %made on copy
    plan.copy %x, %v on copy : memref<16xf32>, memref<16xf32>
    %back = plan.record copy
    plan.wait %back
    plan.end
  }
}
