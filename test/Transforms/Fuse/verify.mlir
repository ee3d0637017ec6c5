// RUN: heddle-opt %s --split-input-file --fuse-verify --verify-diagnostics

// What is in a kernel is well placed.
nn.model @good family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  plan.kernel @relu(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = "rows", ties = array<i64: -1>} {
    %0 = nn.relu %x : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0907: is in no kernel}}
    %0 = nn.relu %x : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f() {
    // expected-error @+1 {{H0907: is in no kernel}}
    %0 = nn.fill 0.0 : () -> tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train() attributes {kind = "train", arg_names = [], result_names = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      // expected-error @+1 {{H0907: is in no kernel}}
      %0 = nn.fill 0.0 : () -> tensor<4xf32>
      nn.return
    }
    nn.return
  }
}
