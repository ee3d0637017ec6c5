// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{cannot read the stage "F0 C0 O"}}
pipe.schedule @s micro_batches 1 ["F0 C0 O"]

// -----

// expected-error @+1 {{cannot read the stage "F0 B O"}}
pipe.schedule @s micro_batches 1 ["F0 B O"]

// -----

// expected-error @+1 {{'pipe.schedule' op has 0 micro-batches; 1 to 1048576 are possible}}
pipe.schedule @s micro_batches 0 ["O"]

// -----

// expected-error @+1 {{'pipe.schedule' op has 18446744073709551615 micro-batches; 1 to 1048576 are possible}}
pipe.schedule @s micro_batches -1 ["O"]

// -----

// expected-error @+1 {{'pipe.schedule' op has no stages}}
pipe.schedule @s micro_batches 1 []

// -----

// expected-error @+1 {{'pipe.schedule' op stage 0 runs micro-batch 2 of 2}}
pipe.schedule @s micro_batches 2 ["F0 B0 F2 B2 O"]

// -----

// expected-error @+1 {{'pipe.schedule' op stage 0 runs B1 before F1}}
pipe.schedule @s micro_batches 2 ["F0 B1 F1 B0 O"]

// -----

// expected-error @+1 {{'pipe.schedule' op stage 0 runs F0 twice}}
pipe.schedule @s micro_batches 1 ["F0 F0 B0 O"]

// -----

// expected-error @+1 {{'pipe.schedule' op stage 1 does not finish micro-batch 1}}
pipe.schedule @s micro_batches 2 ["F0 F1 B0 B1 O", "F0 F1 B0 O"]

// -----

// expected-error @+1 {{'pipe.schedule' op stage 0 must end in its one optimizer fragment}}
pipe.schedule @s micro_batches 1 ["F0 B0"]

// -----

// expected-error @+1 {{'pipe.schedule' op stage 0 must end in its one optimizer fragment}}
pipe.schedule @s micro_batches 1 ["O F0 B0 O"]

// -----

// Stage 0 wants B0 before F1; stage 1 gives B0 only after F1.
// expected-error @+1 {{'pipe.schedule' op stage 0 waits forever at B0 for B0 of stage 1, which waits at F1 for F1 of stage 0}}
pipe.schedule @s micro_batches 2 ["F0 B0 F1 B1 O", "F0 F1 B0 B1 O"]

// -----

// expected-error @+1 {{'pipe.schedule' op stage 0 runs W0 before I0}}
pipe.schedule @s micro_batches 1 ["F0 W0 I0 O"]

// -----

// expected-error @+1 {{'pipe.schedule' op stage 1 does not finish micro-batch 0 of chunk 1}}
pipe.schedule @s micro_batches 1 ["F0 F0/1 B0/1 B0 O", "F0 B0 F0/1 O"]

// -----

// expected-error @+1 {{'pipe.fragments' op has 1 regions and 1 numbers of slots for 2 kinds of fragments}}
pipe.fragments "F0 B0" slots [1] {
^bb0(%batch: index, %slot: index):
  nn.return
}

// -----

// expected-error @+1 {{'pipe.fragments' op has 0 slots; at least 1}}
pipe.fragments "F0" slots [0] {
^bb0(%batch: index, %slot: index):
  nn.return
}

// -----

// expected-error @+1 {{'pipe.fragments' op needs two arguments of type index in every region}}
pipe.fragments "F0" slots [1] {
^bb0(%batch: index):
  nn.return
}

// -----

// expected-error @+1 {{'pipe.fragments' op has 2 regions and 2 numbers of slots for 1 kinds of fragments}}
pipe.fragments "F0" slots [1, 1] {
^bb0(%batch: index, %slot: index):
  nn.return
}, {
^bb0(%batch: index, %slot: index):
  nn.return
}

// -----

// expected-error @+1 {{cannot read the stage "F0 C0"}}
pipe.fragments "F0 C0" slots [1] {
^bb0(%batch: index, %slot: index):
  nn.return
}

// -----

// expected-error @+1 {{'pipe.fragments' op has 1 regions and 1 numbers of slots for 2 kinds of fragments}}
pipe.fragments "F0 F0/1" slots [1] {
^bb0(%batch: index, %slot: index):
  nn.return
}
