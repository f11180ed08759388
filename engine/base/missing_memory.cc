#include "engine/base/missing_memory.h"

#include <new>

namespace rivulet {
namespace {

thread_local bool may_be_refused = false;
void (*end_process)() = nullptr;

// operator new calls this, and tries again if it returns. What it throws becomes a null pointer with std::nothrow.
void OnMissingMemory() {
  if (may_be_refused) throw std::bad_alloc();
  end_process();
}

}  // namespace

void EndWhereMemoryIsMissing(void (*end)()) {
  end_process = end;
  std::set_new_handler(OnMissingMemory);
}

MemoryMayBeRefused::MemoryMayBeRefused() : outer_(may_be_refused) { may_be_refused = true; }
MemoryMayBeRefused::~MemoryMayBeRefused() { may_be_refused = outer_; }

}  // namespace rivulet
