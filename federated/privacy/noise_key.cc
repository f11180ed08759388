#include "federated/privacy/noise_key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace rivulet::privacy {
namespace {

// The file: this line with the key's 64 hexadecimal digits behind it, and a line break.
constexpr std::string_view kHeader = "rivulet noise key 1 ";
constexpr size_t kFileBytes = kHeader.size() + 2 * NoiseKey::kBytes + 1;
constexpr std::string_view kPurposeOfKeys = "rivulet noise 1";
constexpr mode_t kOwnerOnly = 0600;

// Text with secrets in it, wiped when it goes.
class SecretText {
 public:
  explicit SecretText(std::string text) : text_(std::move(text)) {}
  ~SecretText() { OPENSSL_cleanse(text_.data(), text_.size()); }
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  std::string_view view() const { return text_; }

 private:
  std::string text_;
};

std::string FileTextOf(const uint8_t* bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(kFileBytes);  // so that no copy is left behind by growing
  text = kHeader;
  for (size_t i = 0; i < NoiseKey::kBytes; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  text += '\n';
  return text;
}

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// An empty file with the mode 0600 at `path`, in the place of whatever file was there: the mode is there before a byte.
Status MakePrivateFile(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
  if (file < 0) return Internal("cannot make '{}' for a noise key: {}", path, std::strerror(errno));
  const bool made = fchmod(file, kOwnerOnly) == 0;
  close(file);
  if (made) return absl::OkStatus();
  return Internal("cannot make '{}' readable for its owner alone: {}", path, std::strerror(errno));
}

Status CheckOwnerOnly(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return NotFound("there is no noise key '{}': {}; the run's noise cannot be made again without it", path,
                    std::strerror(errno));
  }
  if ((info.st_mode & 077) == 0) return absl::OkStatus();
  return FailedPrecondition(
      "the noise key '{}' has the mode {:04o}, so others may have read it; end the run, or chmod 600 it if you are "
      "sure that none did",
      path, info.st_mode & 07777);
}

Status WriteFile(FileSystem& files, const std::string& path, std::string_view text) {
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create(path));
  RIVULET_RETURN_IF_ERROR(file->Append(text));
  RIVULET_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

StatusOr<NoiseKey> NoiseKey::Generate() {
  NoiseKey key;
  if (RAND_priv_bytes(key.bytes_.data(), static_cast<int>(kBytes)) != 1) {
    return Internal("the system gives no random bytes, so there can be no noise key");
  }
  return key;
}

NoiseKey NoiseKey::FromBytes(std::span<const uint8_t, kBytes> bytes) {
  NoiseKey key;
  std::copy(bytes.begin(), bytes.end(), key.bytes_.begin());
  return key;
}

StatusOr<NoiseKey> NoiseKey::Create(FileSystem& files, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(NoiseKey key, Generate());
  RIVULET_RETURN_IF_ERROR(key.Write(files, path));
  return key;
}

Status NoiseKey::Write(FileSystem& files, const std::string& path) const {
  if (files.Exists(path)) {
    return AlreadyExists("'{}' is there already; a noise key is never replaced, so resume its run or name another file",
                         path);
  }
  const std::string part = path + ".part";
  const SecretText text(FileTextOf(data()));
  RIVULET_RETURN_IF_ERROR(MakePrivateFile(part));
  const auto write = [&]() -> Status {
    RIVULET_RETURN_IF_ERROR(WriteFile(files, part, text.view()));
    RIVULET_RETURN_IF_ERROR(files.Rename(part, path));
    return files.SyncFolder(FolderOf(path));
  };
  const Status status = write();
  if (!status.ok()) {
    if (files.Exists(part)) files.Remove(part).IgnoreError();  // the first error is the one to tell
    return Annotate(status, "writing the noise key");
  }
  return status;
}

StatusOr<NoiseKey> NoiseKey::Read(FileSystem& files, const std::string& path) {
  RIVULET_RETURN_IF_ERROR(CheckOwnerOnly(path));
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, files.ReadAll(path));
  const SecretText text(std::move(bytes));
  const std::string_view view = text.view();
  const auto damaged = [&] {
    return DataLoss("'{}' is no noise key of this program, or damaged; restore it from a backup of the run", path);
  };
  if (view.size() != kFileBytes || !view.starts_with(kHeader) || view.back() != '\n') return damaged();
  NoiseKey key;
  for (size_t i = 0; i < kBytes; ++i) {
    const int high = DigitOf(view[kHeader.size() + 2 * i]), low = DigitOf(view[kHeader.size() + 2 * i + 1]);
    if (high < 0 || low < 0) return damaged();
    key.bytes_[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return key;
}

NoiseKey::NoiseKey(NoiseKey&& other) noexcept : bytes_(other.bytes_) { OPENSSL_cleanse(other.bytes_.data(), kBytes); }

NoiseKey& NoiseKey::operator=(NoiseKey&& other) noexcept {
  if (this != &other) {
    bytes_ = other.bytes_;
    OPENSSL_cleanse(other.bytes_.data(), kBytes);
  }
  return *this;
}

NoiseKey::~NoiseKey() { OPENSSL_cleanse(bytes_.data(), kBytes); }

StatusOr<NoiseKey> NoiseKey::Derive(uint64_t version, NoisePurpose purpose) const {
  std::string info(kPurposeOfKeys);
  for (int byte = 0; byte < 8; ++byte) info += static_cast<char>(version >> (8 * byte));
  for (int byte = 0; byte < 4; ++byte) info += static_cast<char>(static_cast<uint32_t>(purpose) >> (8 * byte));
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr,
                                                                          EVP_KDF_CTX_free);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string("digest", digest, 0),
      OSSL_PARAM_construct_octet_string("key", const_cast<uint8_t*>(bytes_.data()), kBytes),
      OSSL_PARAM_construct_octet_string("info", info.data(), info.size()), OSSL_PARAM_construct_end()};
  NoiseKey derived;
  if (!context || EVP_KDF_derive(context.get(), derived.bytes_.data(), kBytes, parameters) <= 0) {
    return Internal("OpenSSL derives no key (HKDF with SHA-256)");
  }
  return derived;
}

}  // namespace rivulet::privacy
