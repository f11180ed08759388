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
  // Makes `folder`. ALREADY_EXISTS: it is there already. `name` is the readable name in its certificates; other errors
  // are those of CheckDisplayName.
  static Status Init(FileSystem& fs, const Clock& clock, const std::string& folder, std::string_view name, int days);

  // Needs no key, takes no lock, writes nothing.
  static StatusOr<std::unique_ptr<Authority>> OpenToRead(FileSystem& fs, const Clock& clock, const std::string& folder);
  // UNAVAILABLE: another process signs. FAILED_PRECONDITION: the key is missing or another authority's, or the
  // authority has expired. NOT_FOUND: there is no authority. DATA_LOSS: its index was changed.
  static StatusOr<std::unique_ptr<Authority>> OpenToSign(FileSystem& fs, const Clock& clock, const std::string& folder);

  const Certificate& certificate() const { return certificate_; }
  const std::string& revocation_list() const { return revocation_list_; }  // in PEM
  const std::vector<IndexRow>& rows() const { return rows_; }              // in the order of signing

  // All calls below need OpenToSign.

  struct Order {
    Subject subject;
    std::optional<int64_t> days;  // [kCertificateDays, or the authority's remaining days]
    EVP_PKEY* public_key = nullptr;
    // False: the name is new, or all its certificates are revoked or expired. True: the name had a certificate before.
    bool renewal = false;
    // The files to deliver, given the certificate.
    std::function<std::vector<DeliveredFile>(const Certificate&)> files;
  };
  // Signs, writes the index and delivers. If an earlier call for the same name and place was interrupted
  // after it had signed, its certificate is delivered instead. ALREADY_EXISTS: the name has a valid
  // certificate, or `delivery`'s place is taken. NOT_FOUND: there is nothing to renew. INVALID_ARGUMENT: it
  // would outlast the authority; or as CheckSubject. FAILED_PRECONDITION: the key was revoked as compromised,
  // under any name.
  StatusOr<IndexRow> Issue(const Order& order, Delivery& delivery);

  // The active certificates of a name, and its last one, with key and hosts for a renewal.
  std::vector<const IndexRow*> ActiveRowsOf(const CertificateName& name) const;
  StatusOr<const IndexRow*> LastRowOf(const CertificateName& name) const;  // NOT_FOUND, with the nearest name

  // Revokes the active certificates of `name`, and gives all rows that are revoked now. A compromised key affects all
  // its certificates: for that reason, all with this key are revoked, under any name, and those revoked for other
  // reasons, or expired, are marked too. FAILED_PRECONDITION: none was active.
  StatusOr<std::vector<IndexRow>> RevokeName(const CertificateName& name, RevocationReason reason);
  // Revokes one certificate; if its key is compromised, all with that key. NOT_FOUND.
  StatusOr<std::vector<IndexRow>> RevokeSerial(std::string_view serial, RevocationReason reason);

  // Makes a new certificate of the authority itself, from now on, with the same key: its earlier signatures stay valid.
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
  // Revokes those of `rows_` with an index in `chosen`, and others with the same keys if these are compromised.
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
