// A certificate authority: a folder that defines the members of a deployment. It contains
//
//   authority.key   its key (0600), whose holder can admit anyone
//   authority.crt   its certificate, which every site has
//   index.txt       everything that it has signed (certificates/index.h)
//   revoked.crl     its signed revocation list; every site that accepts connections has it
//   lock            locked while something is signed
//
// Calls are atomic. An interrupted call (a crash, a full disk) has issued nothing, or the same call again finishes it.
// The index is written before a certificate is delivered, so every certificate can be revoked. An undelivered one stays
// ready under the serial number in the index (Delivery).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "certificates/index.h"
#include "certificates/private_files.h"
#include "engine/base/clock.h"

namespace rivulet {

inline constexpr int kMostDays = 36500;
inline constexpr int kAuthorityDays = 3650;
inline constexpr int kCertificateDays = 365;

class Authority {
 public:
  // Makes `folder`, which must not be there: ALREADY_EXISTS. `name` is what people read in its certificates; errors as
  // CheckDisplayName.
  static Status Init(FileSystem& fs, const Clock& clock, const std::string& folder, std::string_view name, int days);

  // Needs no key, takes no lock, writes nothing.
  static StatusOr<std::unique_ptr<Authority>> OpenToRead(FileSystem& fs, const Clock& clock, const std::string& folder);
  // UNAVAILABLE: another process signs. FAILED_PRECONDITION: the key is missing, or another's; the authority has
  // expired. NOT_FOUND: no authority there. DATA_LOSS: its index was changed.
  static StatusOr<std::unique_ptr<Authority>> OpenToSign(FileSystem& fs, const Clock& clock, const std::string& folder);

  const Certificate& certificate() const { return certificate_; }
  const std::string& revocation_list() const { return revocation_list_; }  // in PEM
  const std::vector<IndexRow>& rows() const { return rows_; }              // in the order in which they were signed

  // The rest needs OpenToSign.

  struct Order {
    Subject subject;
    std::optional<int64_t> days;  // [kCertificateDays, or as long as the authority itself]
    EVP_PKEY* public_key = nullptr;
    // False: nobody has this name yet, or all who had it are revoked or expired. True: somebody has had it.
    bool renewal = false;
    // What is handed over, once the certificate is there.
    std::function<std::vector<DeliveredFile>(const Certificate&)> files;
  };
  // Signs, writes the index and hands over. When an earlier call for the same name and place was interrupted after it
  // had signed, what it made is handed over instead.
  // ALREADY_EXISTS: the name has a valid certificate, or something is in `delivery`'s place. NOT_FOUND: nothing to
  // renew. INVALID_ARGUMENT: longer than the authority itself lasts; as CheckSubject. FAILED_PRECONDITION: the key was
  // revoked as compromised, under whatever name.
  StatusOr<IndexRow> Issue(const Order& order, Delivery& delivery);

  // Those of a name that are still good, and perhaps its last one with its key and hosts, for a renewal.
  std::vector<const IndexRow*> ActiveRowsOf(const CertificateName& name) const;
  StatusOr<const IndexRow*> LastRowOf(const CertificateName& name) const;  // NOT_FOUND, with the nearest name

  // Takes back what is still good of `name`; all rows that are now revoked. A key that is compromised is so in every
  // certificate: with that reason all that have it are taken back, under whatever name, and what was taken back for
  // another reason before, or has expired, is noted. FAILED_PRECONDITION: none was.
  StatusOr<std::vector<IndexRow>> RevokeName(const CertificateName& name, RevocationReason reason);
  // One certificate, and with a compromised key those of that key; NOT_FOUND.
  StatusOr<std::vector<IndexRow>> RevokeSerial(std::string_view serial, RevocationReason reason);

  // A certificate of its own that lasts from now on, of the same key: what it signed before stays good.
  Status Renew(int days);

 private:
  Authority(FileSystem& fs, const Clock& clock, std::string folder)
      : fs_(fs), private_(fs), clock_(clock), folder_(std::move(folder)) {}
  Status Read();
  Status ReadAuthorityKey();
  Status Settle();
  Status WriteIndex(std::vector<IndexRow> rows);
  Status WriteRevocationList(const Certificate& authority);
  Revocations RevokedRows() const;
  Status CheckNotCompromised(EVP_PKEY* public_key) const;
  // Those of `rows_` that `chosen` names, and what follows from their keys.
  StatusOr<std::vector<IndexRow>> Revoke(const std::vector<size_t>& chosen, RevocationReason reason);
  StatusOr<Validity> ValidityOf(std::optional<int64_t> days) const;
  int64_t now() const { return clock_.UnixMs() / 1000; }

  FileSystem& fs_;
  PrivateFileSystem private_;
  const Clock& clock_;
  const std::string folder_;
  std::unique_ptr<FileLock> lock_;
  KeyHandle key_;
  Certificate certificate_;
  std::string revocation_list_;
  int64_t list_number_ = 0;
  std::vector<IndexRow> rows_;
};

}  // namespace rivulet
