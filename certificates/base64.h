// Base64 (RFC 4648, section 4, with padding) by OpenSSL.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

std::string EncodeBase64(std::string_view bytes);
// INVALID_ARGUMENT: EncodeBase64 never makes this text; for example, it has blanks or other padding.
StatusOr<std::string> DecodeBase64(std::string_view text);

}  // namespace rivulet
