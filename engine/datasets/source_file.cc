#include "engine/datasets/source_file.h"

#include <algorithm>
#include <cstring>

namespace rivulet {

StatusOr<std::unique_ptr<SourceFile>> SourceFile::Open(const std::string& path, Packing packing) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return Annotate(file.status(), path);
  std::byte head[4] = {};
  const auto head_bytes = static_cast<size_t>(std::min<uint64_t>((*file)->size(), sizeof(head)));
  if (!(*file)->Copy(0, std::span(head).first(head_bytes))) return Annotate(ReadFault(**file), path);
  const bool may_be_packed = packing == Packing::kByContent || path.ends_with(".gz");
  const Compression packed = may_be_packed ? DetectCompression(std::span(head).first(head_bytes)) : Compression::kNone;
  std::unique_ptr<SourceFile> source(new SourceFile(*std::move(file)));
  source->stream_ = NewByteStream(*source->file_, packed, DefaultUnpackedBound(source->file_->size()));
  return source;
}

bool SourceFile::Fill() {
  if (ended_) return false;
  before_ += filled_;
  at_ = filled_ = 0;
  const auto bytes = stream_->Read(std::as_writable_bytes(std::span(buffer_)));
  if (!bytes.ok()) {
    status_ = Annotate(bytes.status(), path());
    ended_ = true;
    return false;
  }
  filled_ = *bytes;
  ended_ = filled_ < buffer_.size();
  return filled_ > 0;
}

StatusOr<size_t> SourceFile::Read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size() && (at_ < filled_ || Fill())) {
    const size_t step = std::min(out.size() - done, filled_ - at_);
    std::memcpy(out.data() + done, buffer_.data() + at_, step);
    at_ += step;
    done += step;
  }
  RIVULET_RETURN_IF_ERROR(status_);
  return done;
}

}  // namespace rivulet
