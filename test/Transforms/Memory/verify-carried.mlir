// RUN: heddle-opt %s --split-input-file --memory-verify --verify-diagnostics

// What is left to the next run is in use to the end, and there until compute
// has waited for it.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    %y = plan.buffer at 0 live [1, 1] owner "activations" : memref<16xf32>
    %x = plan.buffer at 0 live [2, 6] settled 0 owner "activations" : memref<16xf32>
    plan.settle 0
    plan.fill %y : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    // expected-error @+1 {{H0913: bytes [0, 64) are shared with another buffer that is in use at the same command}}
    %y = plan.buffer at 0 live [0, 0] owner "activations" : memref<16xf32>
    // expected-note @+1 {{the other one}}
    %x = plan.buffer at 0 live [2, 6] settled 1 owner "activations" : memref<16xf32>
    plan.fill %y : memref<16xf32>
    plan.settle 0
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    %x = plan.buffer at 0 live [1, 5] owner "activations" : memref<16xf32>
    plan.settle 0
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    // expected-error @+1 {{H0913: leaves to the next run, up to its command 0, a buffer that is not live there}}
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    %x = plan.buffer at 0 live [1, 4] settled 0 owner "activations" : memref<16xf32>
    plan.settle 0
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    // expected-error @+1 {{H0913: command 5 uses a buffer that is live in [1, 4]}}
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

// What is fetched comes behind it.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    %y = plan.buffer at 0 live [1, 5] owner "activations" : memref<16xf32>
    %x = plan.buffer at 0 live [6, 10] settled 5 owner "activations" : memref<16xf32>
    plan.settle 0 on copy
    %begun = plan.record compute
    plan.wait %begun on copy
    plan.copy %y, %v on copy : memref<16xf32>, memref<16xf32>
    %fetched = plan.record copy
    plan.wait %fetched
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

// Not if the stream has not waited.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    // expected-error @+1 {{H0913: bytes [0, 64) are shared with another buffer that is in use at the same command}}
    %y = plan.buffer at 0 live [0, 4] owner "activations" : memref<16xf32>
    // expected-note @+1 {{the other one}}
    %x = plan.buffer at 0 live [6, 10] settled 5 owner "activations" : memref<16xf32>
    %begun = plan.record compute
    plan.wait %begun on copy
    plan.copy %y, %v on copy : memref<16xf32>, memref<16xf32>
    %fetched = plan.record copy
    plan.wait %fetched
    plan.settle 0
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    %x = plan.buffer at 0 live [0, 4] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    // expected-note @+2 {{help: put plan.settle 0 before what uses its bytes first}}
    // expected-error @+1 {{H0924: is left to the next run, where compute does not wait for it}}
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    %x = plan.buffer at 0 live [1, 5] settled 0 owner "activations" : memref<16xf32>
    // expected-error @+1 {{H0924: waits for point 1, and a run leaves 1}}
    plan.settle 1
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    %x = plan.buffer at 0 live [1, 5] settled 0 owner "activations" : memref<16xf32>
    plan.settle 0
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    // expected-error @+1 {{H0924: has the number 1, where 0 is next}}
    %stored = plan.record store carried 1
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %v = plan.state_ref @v : memref<16xf32>
    %x = plan.buffer at 0 live [1, 6] settled 0 owner "activations" : memref<16xf32>
    plan.settle 0
    plan.loop 2 {
    ^bb0(%i: index):
    plan.fill %x : memref<16xf32>
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %v, %x on store : memref<16xf32>, memref<16xf32>
    // expected-error @+1 {{H0924: leaves to the next run what a loop runs again}}
    %stored = plan.record store carried 0
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.sequence @layer() attributes {frame_bytes = 256 : i64} {
    %v = plan.state_ref @v : memref<16xf32>
    // expected-error @+1 {{H0924: is of the next run of a program or of the one before, and is in no program's own commands}}
    plan.settle 0
    plan.end
  }
}
