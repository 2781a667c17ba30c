// KeptChoices: what was found fastest on a GPU, kept on disk for the next process.
//
//     $XDG_CACHE_HOME/ringrad/cudnn_91900-NVIDIA_H100_80GB_HBM3.json          one file per library and device
//     {"library": "cudnn 91900", "device": "NVIDIA H100 80GB HBM3",
//      "choices": {"0,4,0,32,64,56,56": "eng12_k2=4_k3=1"}}                   problem: the library's own name
//
// The file is a stranger's: it is read within bounds, and one that is damaged or of another library or device is
// ignored with a word on stderr, and left as it is. A name that it gives is only ever looked for among those that
// the library proposes for the problem. Private to kernels/.

#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ringrad::kernels {

/// Where programs keep what they can find again: $XDG_CACHE_HOME/ringrad, or $HOME/.cache/ringrad; empty if
/// neither variable is an absolute path.
std::filesystem::path cache_folder();

class KeptChoices {
 public:
  /// Of library "cudnn 91900" on device "NVIDIA H100 80GB HBM3", in this folder; in an empty one nothing is kept.
  KeptChoices(const std::filesystem::path& folder, std::string library, std::string device);

  /// What was chosen for the problem, by this process or an earlier one.
  std::optional<std::string> find(const std::string& problem) const;

  /// Keeps a choice, beside those that other processes have kept since. A file that cannot be written is told of
  /// once, and nothing is lost but time.
  void keep(const std::string& problem, const std::string& choice);

  const std::filesystem::path& file() const { return file_; }

 private:
  void read();
  void write();
  void ignore(std::string_view why);

  const std::string library_, device_;
  std::filesystem::path file_;  // empty: nothing is kept
  std::map<std::string, std::string> choices_;
};

/// How many ways to compute something are timed: a whole number in [1, 100], `otherwise` if the text is null.
///
/// Throws: ValueError "RINGRAD_CUDNN_CANDIDATES: ..." for another text
int parse_candidates(const char* text, int otherwise);

}  // namespace ringrad::kernels
