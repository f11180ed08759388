// What happens where operator new finds no memory.
//
// Protobuf, and not it alone of the libraries that we stand on, is not made for exceptions: its containers, destroyed
// while std::bad_alloc is unwound, read what was never written. Our own locks would be given back over state that is
// half changed, to threads that go on. So a program ends on the spot, as it would by kill -9, which histories and files
// are made to bear; only who asks for much, and has something to say where it is refused, is told.
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
