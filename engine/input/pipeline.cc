#include "engine/input/pipeline.h"

namespace rivulet {

// Every stage counts, because a filter that drops everything, or a repeat of nothing, works without producing an
// element.
Status InputBudget::CountElement(std::string_view where) {
  const int64_t count = elements_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (limits_.max_elements >= 0 && count > limits_.max_elements)
    return ResourceExhausted(
        "{}: the input pipeline's stages have handed on {} elements, all that it may; it repeats without end, or "
        "filters everything out",
        where, limits_.max_elements);
  // Reads the clock only sometimes: an element costs less than that.
  if (limits_.deadline != std::chrono::steady_clock::time_point::max() && count % 64 == 0 &&
      std::chrono::steady_clock::now() > limits_.deadline)
    return DeadlineExceeded("{}: the input pipeline's time is up", where);
  return absl::OkStatus();
}

Status InputBudget::Hold(size_t bytes, std::string_view where) {
  const size_t held = held_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (limits_.max_held_bytes == 0 || held <= limits_.max_held_bytes) return absl::OkStatus();
  held_.fetch_sub(bytes, std::memory_order_relaxed);
  return ResourceExhausted("{}: the input pipeline's buffers would hold {} bytes, more than {}; make them smaller",
                           where, held, limits_.max_held_bytes);
}

void InputBudget::Release(size_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

bool InputBudget::TakeThread() {
  if (limits_.max_threads < 0) return true;
  if (threads_.fetch_add(1, std::memory_order_relaxed) < limits_.max_threads) return true;
  threads_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void InputBudget::GiveThread() {
  if (limits_.max_threads >= 0) threads_.fetch_sub(1, std::memory_order_relaxed);
}

// Cancellation and budget are checked here for all stages, so that none can omit it.
StatusOr<bool> PipelineIterator::Next(const CancellationToken& cancel, Element& element) {
  if (cancel.cancelled()) return Cancelled("{}: the input was cancelled", where_);
  if (context_.budget != nullptr) RIVULET_RETURN_IF_ERROR(context_.budget->CountElement(where_));
  return DoNext(cancel, element);
}

}  // namespace rivulet
