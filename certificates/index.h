// Record of everything that an authority has ever signed: the file index.txt of its folder, its one source of truth. A
// row a line:
//
//   rivulet-certificates 1
//   0F3A…9C rivulet:client/hospital-a - 2026-11-22T14:25:30Z 2027-11-22T14:25:30Z MFkwEwYHKoZI…
//   77B0…12 rivulet:coordinator/fl.example.org fl.example.org,192.0.2.7 … … … revoked 2026-12-01T08:00:00Z superseded
//
// serial number, name, hosts ("-": none), first and last second, and public key (SubjectPublicKeyInfo in base64). A
// revoked certificate also has the time and reason. Fields are separated by one space, which none of them can contain.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "certificates/revocation_list.h"
#include "certificates/sign.h"

namespace rivulet {

struct IndexRow {
  std::string serial;
  Subject subject;
  Validity validity;
  std::string public_key;  // as PublicKeyText
  std::optional<Revocation> revocation;

  bool Active(int64_t now) const { return !revocation && now <= validity.until; }
  std::string_view State(int64_t now) const;  // "valid", "revoked", "expired"
};

std::string IndexText(const std::vector<IndexRow>& rows);
// DATA_LOSS, naming `where` and the line: text that IndexText would not have written.
StatusOr<std::vector<IndexRow>> ParseIndex(std::string_view text, std::string_view where);

}  // namespace rivulet
