#include "cli/data/download.h"

#define CURL_DISABLE_TYPECHECK  // its checks are macros that only replace functions
#include <curl/curl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>

namespace rivulet {
namespace {

constexpr int kAttempts = 4;              // in a row that yield no bytes
constexpr long kConnectSeconds = 20;      // NOLINT: libcurl's type
constexpr long kSilentSeconds = 30;       // as above; of a silent server
constexpr int64_t kTellEvery = 64 << 10;  // bytes

// If linked, libcurl loads two dozen libraries (Kerberos, LDAP, GnuTLS …), which cost every command 6 of its 25 ms to
// start. So it is opened for a download, and a machine without it has all other commands.
struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_strerror) easy_strerror;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// It is never closed: its registrations end with the process.
StatusOr<Curl> OpenCurl() {
  void* const library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return FailedPrecondition("there is no libcurl (Debian's package libcurl4): {}", dlerror());
  Curl curl{};
  if (!Find(library, "curl_global_init", &curl.global_init) || !Find(library, "curl_easy_init", &curl.easy_init) ||
      !Find(library, "curl_easy_setopt", &curl.easy_setopt) ||
      !Find(library, "curl_easy_getinfo", &curl.easy_getinfo) ||
      !Find(library, "curl_easy_perform", &curl.easy_perform) ||
      !Find(library, "curl_easy_cleanup", &curl.easy_cleanup) ||
      !Find(library, "curl_easy_strerror", &curl.easy_strerror)) {
    return FailedPrecondition("libcurl lacks a function: {}", dlerror());
  }
  const CURLcode ready = curl.global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK) return ResourceExhausted("libcurl cannot begin: {}", curl.easy_strerror(ready));
  return curl;
}

// The file to which received bytes are appended.
class Partial {
 public:
  static StatusOr<std::unique_ptr<Partial>> Open(const std::string& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    struct stat info;
    if (file < 0 || fstat(file, &info) != 0) return Error(path, "cannot be written");
    return std::unique_ptr<Partial>(new Partial(path, file, info.st_size));
  }
  ~Partial() { close(file_); }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  int64_t size() const { return size_; }
  Status Append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Error(path_, "cannot be written");
      bytes.remove_prefix(static_cast<size_t>(written));
      size_ += written;
    }
    return absl::OkStatus();
  }
  Status Empty() {
    size_ = 0;
    return ftruncate(file_, 0) == 0 ? absl::OkStatus() : Error(path_, "cannot be shortened");
  }
  Status Sync() { return fdatasync(file_) == 0 ? absl::OkStatus() : Error(path_, "cannot be synced"); }

 private:
  Partial(std::string path, int file, int64_t size) : path_(std::move(path)), file_(file), size_(size) {}
  static Status Error(const std::string& path, std::string_view what) {
    return absl::ErrnoToStatus(errno, fmt::format("'{}' {}", path, what));
  }

  const std::string path_;
  const int file_;
  int64_t size_;
};

// One response of a server.
struct Transfer {
  const Curl& library;
  CURL* curl;
  Partial& partial;
  int64_t bytes;
  const DataProgress& progress;
  int64_t told = 0;
  bool begun = false;
  Status status;  // why this program stopped it

  // Bytes may be appended only if the server says that they begin at the file's end.
  Status Begin() {
    long code = 0;  // NOLINT: libcurl's type
    library.easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    begun = true;
    return code == 206 || partial.size() == 0 ? absl::OkStatus() : partial.Empty();
  }

  Status Take(std::string_view piece) {
    if (!begun) RIVULET_RETURN_IF_ERROR(Begin());
    if (partial.size() + std::ssize(piece) > bytes) return DataLoss("it is longer than {} bytes", bytes);
    RIVULET_RETURN_IF_ERROR(partial.Append(piece));
    if (!progress || (partial.size() - told < kTellEvery && partial.size() < bytes)) return absl::OkStatus();
    told = partial.size();
    return progress(partial.size(), bytes);
  }
};

extern "C" size_t OnBytes(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.status = transfer.Take({data, size * count});
  return transfer.status.ok() ? size * count : CURL_WRITEFUNC_ERROR;
}

// Called while nothing arrives: Ctrl-C must not wait for a server.
extern "C" int OnWait(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  // It is called once more after a piece that could not be written; that error stays.
  if (transfer.status.ok() && transfer.progress)
    transfer.status = transfer.progress(transfer.partial.size(), transfer.bytes);
  return transfer.status.ok() ? 0 : 1;
}

void SetUp(const Curl& library, CURL* curl, const std::string& url, const std::string& range, Transfer& transfer) {
  library.easy_setopt(curl, CURLOPT_URL, url.c_str());
  // A data set's address is HTTPS and stays so; a mirror on this network may be HTTP, because digests are checked.
  const char* const protocols = url.starts_with("https:") ? "https" : "http,https";
  library.easy_setopt(curl, CURLOPT_PROTOCOLS_STR, protocols);
  library.easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, protocols);
  library.easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  library.easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  library.easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  library.easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  library.easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  library.easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  library.easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  library.easy_setopt(curl, CURLOPT_USERAGENT, "rivulet/" RIVULET_VERSION);
  if (const char* authorities = std::getenv("SSL_CERT_FILE"); authorities != nullptr && *authorities != '\0') {
    library.easy_setopt(curl, CURLOPT_CAINFO, authorities);
  }
  if (!range.empty()) library.easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  library.easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBytes);
  library.easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  library.easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  library.easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnWait);
  library.easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
}

// One request for the missing bytes.
Status Attempt(const Curl& library, const std::string& url, Partial& partial, int64_t bytes,
               const DataProgress& progress) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(library.easy_init(), library.easy_cleanup);
  if (curl == nullptr) return ResourceExhausted("there is no memory for a connection");
  const std::string range = partial.size() > 0 ? fmt::format("{}-", partial.size()) : "";
  Transfer transfer{
      .library = library, .curl = curl.get(), .partial = partial, .bytes = bytes, .progress = progress, .status = {}};
  SetUp(library, curl.get(), url, range, transfer);
  const CURLcode code = library.easy_perform(curl.get());
  if (!transfer.status.ok()) return transfer.status;
  if (code == CURLE_OK && partial.size() == bytes) return absl::OkStatus();
  if (code == CURLE_OK) return DataLoss("it is {} bytes long, and not {}", partial.size(), bytes);
  long answer = 0;  // NOLINT: libcurl's type
  library.easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer);
  if (code == CURLE_HTTP_RETURNED_ERROR && answer == 416) {
    RIVULET_RETURN_IF_ERROR(partial.Empty());
    return Unavailable("the server cannot begin in the middle of it");
  }
  // 408 and 429: it may have the file later.
  if (code == CURLE_HTTP_RETURNED_ERROR && answer >= 400 && answer < 500 && answer != 408 && answer != 429) {
    return NotFound("the server answers {}", answer);
  }
  if (code == CURLE_HTTP_RETURNED_ERROR) return Unavailable("the server answers {}", answer);
  return Unavailable("{}", library.easy_strerror(code));
}

// Repeats until all bytes are there, or attempts yield none.
Status Bring(const Curl& library, const std::string& url, Partial& partial, int64_t bytes,
             const DataProgress& progress) {
  if (partial.size() > bytes) RIVULET_RETURN_IF_ERROR(partial.Empty());
  Status status;
  for (int attempt = 0; partial.size() < bytes && attempt < kAttempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(250 << attempt));
    const int64_t before = partial.size();
    status = Attempt(library, url, partial, bytes, progress);
    if (partial.size() > before) attempt = 0;
    if (!status.ok() && !absl::IsUnavailable(status)) return status;
  }
  return partial.size() < bytes ? status : partial.Sync();
}

}  // namespace

bool DownloadIsBuilt() { return true; }

Status Download(const std::string& url, const std::string& path, int64_t bytes, const DataProgress& progress) {
  static const StatusOr<Curl>* const library = new StatusOr<Curl>(OpenCurl());
  RIVULET_RETURN_IF_ERROR(library->status());
  RIVULET_ASSIGN_OR_RETURN(const auto partial, Partial::Open(path));
  const Status status = Bring(**library, url, *partial, bytes, progress);
  // Bytes of another file are no beginning of this one.
  if (absl::IsDataLoss(status) || (!status.ok() && partial->size() == 0)) (void)unlink(path.c_str());
  return status.ok() ? status : Annotate(status, url);
}

}  // namespace rivulet
