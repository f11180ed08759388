#include "client/training/training_checkpoint.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "client/training/file_name.h"
#include "engine/base/temporary_name.h"
#include "engine/io/sealed_file.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are kept as they are in memory");

constexpr std::string_view kMagic = "RVTRAIN1";

// The head of a file: magic, work, the position's fields in the order of their declaration, the buffers' sizes. Texts
// and lists are a count of 64 bits and their content.
class Writer {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void Number(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void Text(std::string_view text) {
    Number(uint64_t{text.size()});
    bytes_.append(text);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// After the end everything is 0 or "" and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  std::string_view rest() const { return bytes_; }
  template <typename T>
  T Number() {
    T value{};
    if (ok_ = ok_ && bytes_.size() >= sizeof(value); !ok_) return value;
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_.remove_prefix(sizeof(value));
    return value;
  }
  std::string_view Text() {
    const auto size = Number<uint64_t>();
    if (ok_ = ok_ && size <= bytes_.size(); !ok_) return "";
    const std::string_view text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

std::string HeadOf(const Digest& work, const TrainingPosition& at, std::span<const std::span<std::byte>> buffers) {
  Writer w;
  w.Text(kMagic);
  w.Text(work.AsBytes());
  for (const uint64_t number : {at.pass, at.pass_step, at.pass_epoch, at.step, at.epoch, at.batches}) w.Number(number);
  w.Number(at.seen);
  w.Number(uint64_t{at.sums.size()});
  for (const double sum : at.sums) w.Number(sum);
  w.Number(uint64_t{at.declared.size()});
  for (const auto& [name, value] : at.declared) {
    w.Text(name);
    w.Number(value);
  }
  w.Number(uint64_t{buffers.size()});
  for (const std::span<std::byte> buffer : buffers) w.Number(uint64_t{buffer.size()});
  return w.bytes();
}

// Nullopt: of other work, another program or another plan. Counts are from a file with a valid CRC.
std::optional<TrainingPosition> PositionIn(Reader& r, const Digest& work,
                                           std::span<const std::span<std::byte>> buffers) {
  if (r.Text() != kMagic || r.Text() != work.AsBytes()) return std::nullopt;
  TrainingPosition at;
  for (uint64_t* number : {&at.pass, &at.pass_step, &at.pass_epoch, &at.step, &at.epoch, &at.batches}) {
    *number = r.Number<uint64_t>();
  }
  at.seen = r.Number<int64_t>();
  for (auto left = r.Number<uint64_t>(); r.ok() && left > 0; --left) at.sums.push_back(r.Number<double>());
  for (auto left = r.Number<uint64_t>(); r.ok() && left > 0; --left) {
    const std::string_view name = r.Text();
    at.declared[std::string(name)] = r.Number<double>();
  }
  size_t bytes = 0;
  bool same = r.Number<uint64_t>() == buffers.size();
  for (size_t i = 0; same && i < buffers.size(); ++i) {
    same = r.Number<uint64_t>() == buffers[i].size();
    bytes += buffers[i].size();
  }
  if (!same || !r.ok() || r.rest().size() != bytes) return std::nullopt;
  return at;
}

}  // namespace

TrainingCheckpoint::TrainingCheckpoint(FileSystem& fs, const std::string& folder, std::string_view client_id,
                                       Options options)
    : fs_(fs), path_(JoinPath(folder, FileNameOf(client_id))), options_(std::move(options)) {
  // Removes incomplete files of earlier processes.
  RemoveTemporaries(fs_, folder, [&](std::string_view target) { return target == FileNameOf(client_id); });
}

void TrainingCheckpoint::Begin(const Digest& work, int64_t examples) {
  Sha256 sha;
  sha.Update(work.AsBytes()).UpdateU64(static_cast<uint64_t>(examples)).Update(options_.program);
  work_ = std::move(sha).Finish();
  due_ = Clock::now() + options_.every;
}

std::optional<TrainingPosition> TrainingCheckpoint::GoOn(std::span<const std::span<std::byte>> buffers) {
  if (!fs_.Exists(path_)) return std::nullopt;
  const StatusOr<std::string> file = ReadSealedFile(fs_, path_);
  if (!file.ok()) {
    Say(fmt::format("an interrupted training starts over: {}", Message(file.status())));
    Remove();
    return std::nullopt;
  }
  Reader reader(*file);
  std::optional<TrainingPosition> at = PositionIn(reader, work_, buffers);
  if (!at) return std::nullopt;  // an earlier task's, which is over
  const char* from = reader.rest().data();
  for (const std::span<std::byte> buffer : buffers) {
    std::memcpy(buffer.data(), from, buffer.size());
    from += buffer.size();
  }
  Say(fmt::format("resumes after step {} of an interrupted training", at->step));
  return at;
}

void TrainingCheckpoint::Keep(const TrainingPosition& position, std::span<const std::span<std::byte>> buffers) {
  const std::string head = HeadOf(work_, position, buffers);
  std::vector<std::string_view> pieces = {head};
  for (const std::span<std::byte> buffer : buffers) {
    pieces.emplace_back(reinterpret_cast<const char*>(buffer.data()), buffer.size());
  }
  const Status kept = WriteSealedFile(fs_, path_, pieces);
  due_ = Clock::now() + options_.every;  // from its end, so that a slow disk does not take all the time
  if (!kept.ok() && !std::exchange(said_lost_, true)) {
    Say(fmt::format(
        "the progress of this training cannot be kept: {}; the training starts over if this process ends first",
        Message(kept)));
  }
  if (kept.ok()) said_lost_ = false;
}

void TrainingCheckpoint::Remove() {
  if (fs_.Exists(path_)) fs_.Remove(path_).IgnoreError();
}

void TrainingCheckpoint::Say(const std::string& sentence) const {
  if (options_.on_note) options_.on_note(sentence);
}

}  // namespace rivulet
