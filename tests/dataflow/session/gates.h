// Ops for tests of waiting: gates that a test opens, and a counter that is a resource.
//
//   TestGate(x: T) -> T       its input, once the gate named by its attribute `gate` is open
//   TestOpen(x: T) -> T       its input, immediately; also opens the gate
//   TestBad(x: T) -> T        returns a tensor of another type
//   TestCounter() -> resource, TestCount(counter) -> int64     1, 2, 3, …
#pragma once

#include <string>

namespace rivulet::testing {

// Gates of the process by name; closed at first.
void OpenGate(const std::string& name);
// Waits until `waiting` runs wait at the gate.
void AwaitGate(const std::string& name, int waiting = 1);
// Name of the inter-op pool whose thread started the gate's last op.
std::string GateThread(const std::string& name);

}  // namespace rivulet::testing
