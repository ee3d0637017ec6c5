// RUN: heddle-opt %s --split-input-file --prove-dataflow --verify-diagnostics

// Each layer writes its own cache, and reads it.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @h.0.keys at 0 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.0.values at 256 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.keys at 512 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.values at 768 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.kernel @write(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
      attributes {generator = #plan.generator<cache>, ties = array<i64: 0, 1>} {
    %0:2 = nn.cache_write %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
    plan.yield %0#0, %0#1 : tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>
  }
  plan.kernel @attend(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x4xf32>
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
    %0 = nn.paged_attention %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x4xf32>
    plan.yield %0 : tensor<1x1x4xf32>
  }
  plan.kernel @relu(%x: tensor<1x1x4x16xf32>) -> tensor<1x1x4x16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<1x1x4x16xf32>
    plan.yield %0 : tensor<1x1x4x16xf32>
  }
  plan.sequence @layer(%k: memref<1x1x4x16xf32>, %v: memref<1x1x16x4xf32>, %x: memref<1x1x12xf32>, %t: memref<1x1xi32>, %at: memref<1x1xi32>, %n: memref<1xi32>, %y: memref<1x1x4xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @write(%k, %v, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.launch @attend(%k, %v, %x, %t, %at, %n, %y) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.end
  }
  plan.sequence @decode() attributes {frame_bytes = 512 : i64, kind = #nn.program<decode>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<1x1x12xf32>
    %t = plan.buffer at 64 live [0, 3] owner "activations" {input = #nn.port<pages>} : memref<1x1xi32>
    %at = plan.buffer at 128 live [0, 3] owner "activations" {input = #nn.port<positions>} : memref<1x1xi32>
    %n = plan.buffer at 192 live [0, 3] owner "activations" {input = #nn.port<lengths>} : memref<1xi32>
    %y0 = plan.buffer at 256 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %y1 = plan.buffer at 320 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %k0 = plan.state_ref @h.0.keys : memref<1x1x4x16xf32>
    %v0 = plan.state_ref @h.0.values : memref<1x1x16x4xf32>
    %k1 = plan.state_ref @h.1.keys : memref<1x1x4x16xf32>
    %v1 = plan.state_ref @h.1.values : memref<1x1x16x4xf32>
    plan.call @layer(%k0, %v0, %x, %t, %at, %n, %y0) frame 512 path "h.0" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    plan.call @layer(%k1, %v1, %x, %t, %at, %n, %y1) frame 512 path "h.1" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    plan.end
  }
}

// -----

// Something else writes a cache.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @h.0.keys at 0 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.0.values at 256 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.keys at 512 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.values at 768 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.kernel @write(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
      attributes {generator = #plan.generator<cache>, ties = array<i64: 0, 1>} {
    %0:2 = nn.cache_write %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
    plan.yield %0#0, %0#1 : tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>
  }
  plan.kernel @attend(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x4xf32>
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
    %0 = nn.paged_attention %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x4xf32>
    plan.yield %0 : tensor<1x1x4xf32>
  }
  plan.kernel @relu(%x: tensor<1x1x4x16xf32>) -> tensor<1x1x4x16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<1x1x4x16xf32>
    plan.yield %0 : tensor<1x1x4x16xf32>
  }
  plan.sequence @layer(%k: memref<1x1x4x16xf32>, %v: memref<1x1x16x4xf32>, %x: memref<1x1x12xf32>, %t: memref<1x1xi32>, %at: memref<1x1xi32>, %n: memref<1xi32>, %y: memref<1x1x4xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @write(%k, %v, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.launch @attend(%k, %v, %x, %t, %at, %n, %y) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.end
  }
  plan.sequence @decode() attributes {frame_bytes = 512 : i64, kind = #nn.program<decode>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<1x1x12xf32>
    %t = plan.buffer at 64 live [0, 3] owner "activations" {input = #nn.port<pages>} : memref<1x1xi32>
    %at = plan.buffer at 128 live [0, 3] owner "activations" {input = #nn.port<positions>} : memref<1x1xi32>
    %n = plan.buffer at 192 live [0, 3] owner "activations" {input = #nn.port<lengths>} : memref<1xi32>
    %y0 = plan.buffer at 256 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %y1 = plan.buffer at 320 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %k0 = plan.state_ref @h.0.keys : memref<1x1x4x16xf32>
    %v0 = plan.state_ref @h.0.values : memref<1x1x16x4xf32>
    %k1 = plan.state_ref @h.1.keys : memref<1x1x4x16xf32>
    %v1 = plan.state_ref @h.1.values : memref<1x1x16x4xf32>
    plan.call @layer(%k0, %v0, %x, %t, %at, %n, %y0) frame 512 path "h.0" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    // expected-error @+1 {{H0914: operand 1 is written, which holds @h.1.keys: nn.cache_write alone writes that}}
    plan.launch @relu(%k0, %k1) : (memref<1x1x4x16xf32>, memref<1x1x4x16xf32>) -> ()
    plan.call @layer(%k1, %v1, %x, %t, %at, %n, %y1) frame 512 path "h.1" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    plan.end
  }
}

// -----

// Nothing writes the cache of the second layer in this run.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @h.0.keys at 0 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.0.values at 256 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.keys at 512 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.values at 768 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.kernel @write(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
      attributes {generator = #plan.generator<cache>, ties = array<i64: 0, 1>} {
    %0:2 = nn.cache_write %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
    plan.yield %0#0, %0#1 : tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>
  }
  plan.kernel @attend(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x4xf32>
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
    %0 = nn.paged_attention %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x4xf32>
    plan.yield %0 : tensor<1x1x4xf32>
  }
  plan.kernel @relu(%x: tensor<1x1x4x16xf32>) -> tensor<1x1x4x16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<1x1x4x16xf32>
    plan.yield %0 : tensor<1x1x4x16xf32>
  }
  plan.sequence @layer(%k: memref<1x1x4x16xf32>, %v: memref<1x1x16x4xf32>, %x: memref<1x1x12xf32>, %t: memref<1x1xi32>, %at: memref<1x1xi32>, %n: memref<1xi32>, %y: memref<1x1x4xf32>) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{H0914: operand 0 is read, which holds @h.1.keys: this run has not written it}}
    plan.launch @attend(%k, %v, %x, %t, %at, %n, %y) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.end
  }
  plan.sequence @decode() attributes {frame_bytes = 512 : i64, kind = #nn.program<decode>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<1x1x12xf32>
    %t = plan.buffer at 64 live [0, 3] owner "activations" {input = #nn.port<pages>} : memref<1x1xi32>
    %at = plan.buffer at 128 live [0, 3] owner "activations" {input = #nn.port<positions>} : memref<1x1xi32>
    %n = plan.buffer at 192 live [0, 3] owner "activations" {input = #nn.port<lengths>} : memref<1xi32>
    %y0 = plan.buffer at 256 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %y1 = plan.buffer at 320 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %k0 = plan.state_ref @h.0.keys : memref<1x1x4x16xf32>
    %v0 = plan.state_ref @h.0.values : memref<1x1x16x4xf32>
    %k1 = plan.state_ref @h.1.keys : memref<1x1x4x16xf32>
    %v1 = plan.state_ref @h.1.values : memref<1x1x16x4xf32>
    plan.launch @write(%k0, %v0, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.call @layer(%k0, %v0, %x, %t, %at, %n, %y0) frame 512 path "h.0" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    plan.call @layer(%k1, %v1, %x, %t, %at, %n, %y1) frame 512 path "h.1" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    plan.end
  }
}

// -----

// The second layer writes the first one's cache.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @h.0.keys at 0 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.0.values at 256 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.keys at 512 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.values at 768 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.kernel @write(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
      attributes {generator = #plan.generator<cache>, ties = array<i64: 0, 1>} {
    %0:2 = nn.cache_write %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
    plan.yield %0#0, %0#1 : tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>
  }
  plan.kernel @attend(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x4xf32>
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
    %0 = nn.paged_attention %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x4xf32>
    plan.yield %0 : tensor<1x1x4xf32>
  }
  plan.kernel @relu(%x: tensor<1x1x4x16xf32>) -> tensor<1x1x4x16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<1x1x4x16xf32>
    plan.yield %0 : tensor<1x1x4x16xf32>
  }
  plan.sequence @layer(%k: memref<1x1x4x16xf32>, %v: memref<1x1x16x4xf32>, %x: memref<1x1x12xf32>, %t: memref<1x1xi32>, %at: memref<1x1xi32>, %n: memref<1xi32>, %y: memref<1x1x4xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @write(%k, %v, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.launch @attend(%k, %v, %x, %t, %at, %n, %y) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.end
  }
  plan.sequence @decode() attributes {frame_bytes = 512 : i64, kind = #nn.program<decode>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<1x1x12xf32>
    %t = plan.buffer at 64 live [0, 3] owner "activations" {input = #nn.port<pages>} : memref<1x1xi32>
    %at = plan.buffer at 128 live [0, 3] owner "activations" {input = #nn.port<positions>} : memref<1x1xi32>
    %n = plan.buffer at 192 live [0, 3] owner "activations" {input = #nn.port<lengths>} : memref<1xi32>
    %y0 = plan.buffer at 256 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %y1 = plan.buffer at 320 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %k0 = plan.state_ref @h.0.keys : memref<1x1x4x16xf32>
    %v0 = plan.state_ref @h.0.values : memref<1x1x16x4xf32>
    %k1 = plan.state_ref @h.1.keys : memref<1x1x4x16xf32>
    %v1 = plan.state_ref @h.1.values : memref<1x1x16x4xf32>
    plan.call @layer(%k0, %v0, %x, %t, %at, %n, %y0) frame 512 path "h.0" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    // expected-error @+1 {{H0914: operand 0 is written, which holds @h.0.keys: this run has written it already}}
    plan.launch @write(%k0, %v0, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.launch @attend(%k1, %v1, %x, %t, %at, %n, %y1) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.end
  }
}

// -----

// It writes its own, and reads the first one's values before its own are there.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @h.0.keys at 0 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.0.values at 256 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.keys at 512 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.values at 768 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.kernel @write(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
      attributes {generator = #plan.generator<cache>, ties = array<i64: 0, 1>} {
    %0:2 = nn.cache_write %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
    plan.yield %0#0, %0#1 : tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>
  }
  plan.kernel @attend(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x4xf32>
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
    %0 = nn.paged_attention %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x4xf32>
    plan.yield %0 : tensor<1x1x4xf32>
  }
  plan.kernel @relu(%x: tensor<1x1x4x16xf32>) -> tensor<1x1x4x16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<1x1x4x16xf32>
    plan.yield %0 : tensor<1x1x4x16xf32>
  }
  plan.sequence @layer(%k: memref<1x1x4x16xf32>, %v: memref<1x1x16x4xf32>, %x: memref<1x1x12xf32>, %t: memref<1x1xi32>, %at: memref<1x1xi32>, %n: memref<1xi32>, %y: memref<1x1x4xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @write(%k, %v, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.launch @attend(%k, %v, %x, %t, %at, %n, %y) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.end
  }
  plan.sequence @decode() attributes {frame_bytes = 512 : i64, kind = #nn.program<decode>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<1x1x12xf32>
    %t = plan.buffer at 64 live [0, 3] owner "activations" {input = #nn.port<pages>} : memref<1x1xi32>
    %at = plan.buffer at 128 live [0, 3] owner "activations" {input = #nn.port<positions>} : memref<1x1xi32>
    %n = plan.buffer at 192 live [0, 3] owner "activations" {input = #nn.port<lengths>} : memref<1xi32>
    %y0 = plan.buffer at 256 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %y1 = plan.buffer at 320 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %k0 = plan.state_ref @h.0.keys : memref<1x1x4x16xf32>
    %v0 = plan.state_ref @h.0.values : memref<1x1x16x4xf32>
    %k1 = plan.state_ref @h.1.keys : memref<1x1x4x16xf32>
    %v1 = plan.state_ref @h.1.values : memref<1x1x16x4xf32>
    plan.launch @write(%k1, %v1, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    // expected-error @+1 {{H0914: operand 1 is read, which holds @h.0.values: this run has not written it}}
    plan.launch @attend(%k1, %v0, %x, %t, %at, %n, %y1) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.call @layer(%k0, %v0, %x, %t, %at, %n, %y0) frame 512 path "h.0" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    plan.end
  }
}

// -----

// Attention comes before the write.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @h.0.keys at 0 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.0.values at 256 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.keys at 512 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.values at 768 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.kernel @write(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
      attributes {generator = #plan.generator<cache>, ties = array<i64: 0, 1>} {
    %0:2 = nn.cache_write %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
    plan.yield %0#0, %0#1 : tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>
  }
  plan.kernel @attend(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x4xf32>
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
    %0 = nn.paged_attention %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x4xf32>
    plan.yield %0 : tensor<1x1x4xf32>
  }
  plan.kernel @relu(%x: tensor<1x1x4x16xf32>) -> tensor<1x1x4x16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<1x1x4x16xf32>
    plan.yield %0 : tensor<1x1x4x16xf32>
  }
  plan.sequence @layer(%k: memref<1x1x4x16xf32>, %v: memref<1x1x16x4xf32>, %x: memref<1x1x12xf32>, %t: memref<1x1xi32>, %at: memref<1x1xi32>, %n: memref<1xi32>, %y: memref<1x1x4xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @write(%k, %v, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.launch @attend(%k, %v, %x, %t, %at, %n, %y) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.end
  }
  plan.sequence @decode() attributes {frame_bytes = 512 : i64, kind = #nn.program<decode>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<1x1x12xf32>
    %t = plan.buffer at 64 live [0, 3] owner "activations" {input = #nn.port<pages>} : memref<1x1xi32>
    %at = plan.buffer at 128 live [0, 3] owner "activations" {input = #nn.port<positions>} : memref<1x1xi32>
    %n = plan.buffer at 192 live [0, 3] owner "activations" {input = #nn.port<lengths>} : memref<1xi32>
    %y0 = plan.buffer at 256 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %y1 = plan.buffer at 320 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %k0 = plan.state_ref @h.0.keys : memref<1x1x4x16xf32>
    %v0 = plan.state_ref @h.0.values : memref<1x1x16x4xf32>
    %k1 = plan.state_ref @h.1.keys : memref<1x1x4x16xf32>
    %v1 = plan.state_ref @h.1.values : memref<1x1x16x4xf32>
    // expected-error @+1 {{H0914: operand 0 is read, which holds @h.0.keys: this run has not written it}}
    plan.launch @attend(%k0, %v0, %x, %t, %at, %n, %y0) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.launch @write(%k0, %v0, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.call @layer(%k1, %v1, %x, %t, %at, %n, %y1) frame 512 path "h.1" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    plan.end
  }
}

// -----

// The table of pages and the positions change places.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @h.0.keys at 0 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.0.values at 256 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.keys at 512 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.values at 768 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.kernel @write(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
      attributes {generator = #plan.generator<cache>, ties = array<i64: 0, 1>} {
    %0:2 = nn.cache_write %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
    plan.yield %0#0, %0#1 : tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>
  }
  plan.kernel @attend(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x4xf32>
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
    %0 = nn.paged_attention %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x4xf32>
    plan.yield %0 : tensor<1x1x4xf32>
  }
  plan.kernel @relu(%x: tensor<1x1x4x16xf32>) -> tensor<1x1x4x16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<1x1x4x16xf32>
    plan.yield %0 : tensor<1x1x4x16xf32>
  }
  plan.sequence @layer(%k: memref<1x1x4x16xf32>, %v: memref<1x1x16x4xf32>, %x: memref<1x1x12xf32>, %t: memref<1x1xi32>, %at: memref<1x1xi32>, %n: memref<1xi32>, %y: memref<1x1x4xf32>) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{H0914: operand 3 says where in a cache tokens are, and is not the input `pages`}}
    plan.launch @write(%k, %v, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.launch @attend(%k, %v, %x, %t, %at, %n, %y) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.end
  }
  plan.sequence @decode() attributes {frame_bytes = 512 : i64, kind = #nn.program<decode>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<1x1x12xf32>
    %t = plan.buffer at 64 live [0, 3] owner "activations" {input = #nn.port<pages>} : memref<1x1xi32>
    %at = plan.buffer at 128 live [0, 3] owner "activations" {input = #nn.port<positions>} : memref<1x1xi32>
    %n = plan.buffer at 192 live [0, 3] owner "activations" {input = #nn.port<lengths>} : memref<1xi32>
    %y0 = plan.buffer at 256 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %y1 = plan.buffer at 320 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %k0 = plan.state_ref @h.0.keys : memref<1x1x4x16xf32>
    %v0 = plan.state_ref @h.0.values : memref<1x1x16x4xf32>
    %k1 = plan.state_ref @h.1.keys : memref<1x1x4x16xf32>
    %v1 = plan.state_ref @h.1.values : memref<1x1x16x4xf32>
    plan.call @layer(%k0, %v0, %x, %t, %at, %n, %y0) frame 512 path "h.0" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    plan.call @layer(%k1, %v1, %x, %at, %t, %n, %y1) frame 512 path "h.1" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    plan.end
  }
}

// -----

// The second layer reads no cache.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @h.0.keys at 0 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.0.values at 256 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.keys at 512 : tensor<1x1x4x16xf32> {like = {role = #nn<role cache>}}
  plan.state @h.1.values at 768 : tensor<1x1x16x4xf32> {like = {role = #nn<role cache>}}
  plan.kernel @write(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
      attributes {generator = #plan.generator<cache>, ties = array<i64: 0, 1>} {
    %0:2 = nn.cache_write %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>)
    plan.yield %0#0, %0#1 : tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>
  }
  plan.kernel @attend(%k: tensor<1x1x4x16xf32>, %v: tensor<1x1x16x4xf32>, %x: tensor<1x1x12xf32>, %t: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x4xf32>
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
    %0 = nn.paged_attention %k, %v of %x pages %t at %at lengths %n {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x1x4x16xf32>, tensor<1x1x16x4xf32>, tensor<1x1x12xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x4xf32>
    plan.yield %0 : tensor<1x1x4xf32>
  }
  plan.kernel @relu(%x: tensor<1x1x4x16xf32>) -> tensor<1x1x4x16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<1x1x4x16xf32>
    plan.yield %0 : tensor<1x1x4x16xf32>
  }
  plan.sequence @layer(%k: memref<1x1x4x16xf32>, %v: memref<1x1x16x4xf32>, %x: memref<1x1x12xf32>, %t: memref<1x1xi32>, %at: memref<1x1xi32>, %n: memref<1xi32>, %y: memref<1x1x4xf32>) attributes {frame_bytes = 0 : i64} {
    plan.launch @write(%k, %v, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.launch @attend(%k, %v, %x, %t, %at, %n, %y) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>) -> ()
    plan.end
  }
  plan.sequence @decode() attributes {frame_bytes = 512 : i64, kind = #nn.program<decode>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<1x1x12xf32>
    %t = plan.buffer at 64 live [0, 3] owner "activations" {input = #nn.port<pages>} : memref<1x1xi32>
    %at = plan.buffer at 128 live [0, 3] owner "activations" {input = #nn.port<positions>} : memref<1x1xi32>
    %n = plan.buffer at 192 live [0, 3] owner "activations" {input = #nn.port<lengths>} : memref<1xi32>
    %y0 = plan.buffer at 256 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %y1 = plan.buffer at 320 live [0, 3] owner "activations" : memref<1x1x4xf32>
    %k0 = plan.state_ref @h.0.keys : memref<1x1x4x16xf32>
    %v0 = plan.state_ref @h.0.values : memref<1x1x16x4xf32>
    %k1 = plan.state_ref @h.1.keys : memref<1x1x4x16xf32>
    %v1 = plan.state_ref @h.1.values : memref<1x1x16x4xf32>
    plan.call @layer(%k0, %v0, %x, %t, %at, %n, %y0) frame 512 path "h.0" : memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>, memref<1x1x4xf32>
    // expected-error @+1 {{H0914: writes the cache @h.1.keys, which this run does not read}}
    plan.launch @write(%k1, %v1, %x, %t, %at, %n) : (memref<1x1x4x16xf32>, memref<1x1x16x4xf32>, memref<1x1x12xf32>, memref<1x1xi32>, memref<1x1xi32>, memref<1xi32>) -> ()
    plan.end
  }
}
