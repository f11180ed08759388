#include "federated/numbers/server_numbers.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>

#include "engine/io/crc32c.h"

namespace rivulet {
namespace {

constexpr size_t kSumDigits = 8;

std::string SumOf(std::string_view body) { return fmt::format("{:08x}", Crc32c(body)); }

// Names may contain any character, so each is preceded by its length; a number is its 64 bits.
void Append(const Scalars& scalars, std::string& text) {
  text += fmt::format("{} ", scalars.size());
  for (const auto& [name, value] : scalars) {
    text += fmt::format("{} {} {:x} ", name.size(), name, std::bit_cast<uint64_t>(value));
  }
}

// Reads the output of Append. Beyond the end all values are 0 or "" and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool at_end() const { return ok_ && text_.empty(); }
  bool ok() const { return ok_; }
  uint64_t Number(int base = 10) {
    uint64_t number = 0;
    const char* const end = text_.data() + text_.size();
    const auto [after, error] = std::from_chars(text_.data(), end, number, base);
    if (error != std::errc() || after == end || *after != ' ') return Fail(), 0;
    text_.remove_prefix(static_cast<size_t>(after - text_.data()) + 1);
    return number;
  }
  std::string Text() {
    const uint64_t size = Number();
    if (!ok_ || size >= text_.size() || text_[size] != ' ') return Fail(), "";
    std::string text(text_.substr(0, size));
    text_.remove_prefix(size + 1);
    return text;
  }
  Scalars Named() {
    Scalars scalars;
    for (uint64_t left = Number(); left > 0 && ok_; --left) {
      std::string name = Text();
      scalars.emplace(std::move(name), std::bit_cast<double>(Number(16)));
    }
    return scalars;
  }

 private:
  void Fail() {
    ok_ = false;
    text_ = {};
  }
  std::string_view text_;
  bool ok_ = true;
};

}  // namespace

std::string TextOf(const ServerNumbers& numbers) {
  std::string text;
  Append(numbers.all, text);
  text += fmt::format("{} ", numbers.clients.size());
  for (const auto& [client_id, of] : numbers.clients) {
    text += fmt::format("{} {} ", client_id.size(), client_id);
    Append(of, text);
  }
  return SumOf(text) + text;
}

StatusOr<ServerNumbers> ParseServerNumbers(std::string_view text) {
  const std::string_view body = text.substr(std::min(text.size(), kSumDigits));
  if (text.substr(0, kSumDigits) != SumOf(body)) {
    return DataLoss("the checksum of the server's numbers in the model file is not that which it states");
  }
  Reader reader(body);
  ServerNumbers numbers;
  numbers.all = reader.Named();
  for (uint64_t left = reader.Number(); left > 0 && reader.ok(); --left) {
    std::string client_id = reader.Text();
    numbers.clients.emplace(std::move(client_id), reader.Named());
  }
  if (!reader.at_end()) return DataLoss("the server's numbers in the model file end early or have text left over");
  return numbers;
}

}  // namespace rivulet
