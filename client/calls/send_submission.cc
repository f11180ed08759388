#include "client/calls/send_submission.h"

#include <algorithm>

#include "engine/base/check.h"

namespace rivulet {

// Staged bytes may come from this process's last connection, from an earlier process or another one of this name, and
// may differ. They are compared block by block, so only different blocks are sent, for any sender of the rest.
StatusOr<SubmitResult> SendSubmission(CoordinatorApi& api, const Caller& caller, const Submission& submission,
                                      std::span<const std::byte> bytes, const BlockCrcs& crcs,
                                      const SendOptions& options) {
  const int64_t total = std::ssize(bytes);
  RIVULET_CHECK(submission.bytes == total && crcs.bytes() == total);
  RIVULET_ASSIGN_OR_RETURN(const auto writer, api.Submit(caller, submission));
  if (const SubmitResult* decided = writer->decided()) return *decided;
  const std::span<const uint32_t> staged = writer->staged_crcs(), ours = crcs.whole();
  const auto [end, differs] = std::mismatch(ours.begin(), ours.end(), staged.begin(), staged.end());
  int64_t offset = (end - ours.begin()) * BlockCrcs::kBlockBytes;
  if (options.holder != nullptr) writer->LiesIn(options.holder);
  RIVULET_RETURN_IF_ERROR(writer->Resume(offset));
  for (;;) {
    if (options.at) RIVULET_RETURN_IF_ERROR(options.at(offset));
    if (offset == total) return writer->Finish(crcs.Identity(submission.step));
    const int64_t size = std::min(options.chunk_bytes, total - offset);
    RIVULET_RETURN_IF_ERROR(writer->Write(bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size))));
    offset += size;
  }
}

}  // namespace rivulet
