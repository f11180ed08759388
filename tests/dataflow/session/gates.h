// Ops for tests of what waits: gates that a test opens, and a counter that is a resource.
//
//   TestGate(x: T) -> T       its input, once the gate of its attribute `gate` is open
//   TestOpen(x: T) -> T       its input at once; opens the gate on the way
//   TestBad(x: T) -> T        gives a tensor of another type
//   TestCounter() -> resource, TestCount(counter) -> int64     1, 2, 3, …
#pragma once

#include <string>

namespace rivulet::testing {

// Gates of the process by name; closed at first.
void OpenGate(const std::string& name);
// Waits until `waiting` runs stand before the gate.
void AwaitGate(const std::string& name, int waiting = 1);
// Name of the inter-op pool on whose thread the gate's last op was started.
std::string GateThread(const std::string& name);

}  // namespace rivulet::testing
