// RUN: heddle-opt %s --train-freeze-parameters --split-input-file --verify-diagnostics | FileCheck %s

// A pattern is found anywhere in the name, in the model or in the weight files; the first group counts.

// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{optimizer = {group = ["^a$:lr=0.5", "a:frozen", "wpe:frozen"]}}>,
    config = "{}", weights = {}} {
  // CHECK: nn.state @a role parameter : tensor<4xf32> {trainable}
  nn.state @a role parameter : tensor<4xf32> {trainable}
  // CHECK: nn.state @ab role parameter : tensor<4xf32>{{$}}
  nn.state @ab role parameter : tensor<4xf32> {trainable}
  // CHECK: nn.state @c role parameter : tensor<4xf32> {source = #nn.source<"transformer.wpe" : tensor<4xf32>>}
  nn.state @c role parameter : tensor<4xf32> {trainable, source = #nn.source<"transformer.wpe" : tensor<4xf32>>}
  // CHECK: nn.state @d role parameter : tensor<4xf32> {trainable}
  nn.state @d role parameter : tensor<4xf32> {trainable}
}

// -----

// expected-error @+2 {{H0142: the pattern "e" matches no parameter}}
// expected-note @+1 {{help: take a part of a name such as a}}
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{optimizer = {group = ["e:frozen"]}}>, config = "{}", weights = {}} {
  nn.state @a role parameter : tensor<4xf32> {trainable}
}

// -----

// expected-error @+2 {{H0141: the pattern "(a" is no regular expression}}
// expected-note @+1 {{help: write a point or a bracket that means itself}}
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{optimizer = {group = ["(a:frozen"]}}>, config = "{}", weights = {}} {
  nn.state @a role parameter : tensor<4xf32> {trainable}
}

// -----

// expected-error @+2 {{H0140: the group "a:lr=1,lr=2" cannot be read: lr is given twice}}
// expected-note @+1 {{help: as in --group 'bias:lr=0.1,weight_decay=0'}}
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{optimizer = {group = ["a:lr=1,lr=2"]}}>, config = "{}", weights = {}} {
  nn.state @a role parameter : tensor<4xf32> {trainable}
}
