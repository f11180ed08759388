// Download of a file over HTTP or HTTPS, in pieces if necessary.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

// Whether this program was built with libcurl's header.
bool DownloadIsBuilt();

// Downloads `url` to `path`, `bytes` bytes in all. If `path` has some of them and the server supports ranges, it
// fetches only the rest. A broken connection is made again as long as each one yields bytes; received bytes stay in
// `path` after an error. Redirects of HTTPS stay HTTPS, and certificates are verified by the system's, or those of
// SSL_CERT_FILE. UNAVAILABLE: no server, no network, or too many broken connections. NOT_FOUND: the server has no such
// file. DATA_LOSS: the size differs, and `path` is removed. FAILED_PRECONDITION: this machine has no libcurl.
// UNIMPLEMENTED: built without it. Otherwise `progress`' error, or the disk's.
Status Download(const std::string& url, const std::string& path, int64_t bytes, const DataProgress& progress);

}  // namespace rivulet
