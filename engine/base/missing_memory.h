// Handler for the case that operator new finds no memory.
//
// The process ends at once, as by kill -9; histories and files survive that. Unwinding std::bad_alloc is not safe:
// Protobuf and other libraries are not made for exceptions, and their containers read uninitialized memory when
// destroyed. Our own locks would be released over half-changed state while other threads continue. Code that may ask
// for a lot of memory and can report a refusal opts out (MemoryMayBeRefused).
#pragma once

namespace rivulet {

// From here on `end` is called where this process has no memory for what is asked of operator new; it does not return,
// and may not allocate. For a main(): a library leaves this to its host.
void EndWhereMemoryIsMissing(void (*end)());

// While one of these lives, operator new in its thread fails as it does otherwise: std::bad_alloc, or null with
// std::nothrow.
class MemoryMayBeRefused {
 public:
  MemoryMayBeRefused();
  ~MemoryMayBeRefused();
  MemoryMayBeRefused(const MemoryMayBeRefused&) = delete;
  MemoryMayBeRefused& operator=(const MemoryMayBeRefused&) = delete;

 private:
  const bool outer_;
};

}  // namespace rivulet
