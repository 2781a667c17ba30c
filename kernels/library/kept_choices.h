// KeptChoices: the choices found fastest on a GPU, kept on disk for the next process.
//
//     $XDG_CACHE_HOME/ringrad/cudnn_91900-NVIDIA_H100_80GB_HBM3.json   per library and device
//     {"library": "cudnn 91900", "device": "NVIDIA H100 80GB HBM3",
//      "choices": {"0,4,0,32,64,56,56": "eng12_k2=4_k3=1"}}            problem: the library's name
//
// The file is untrusted: reads are bounded, and a file that is damaged or is for another library or
// device is ignored with a message on stderr and left unchanged. A name from the file is only
// compared with those that the library proposes for the problem. Private to kernels/.

#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ringrad::kernels {

/// The folder for data that programs can recompute: $XDG_CACHE_HOME/ringrad, or
/// $HOME/.cache/ringrad; empty if neither variable is an absolute path.
std::filesystem::path cache_folder();

class KeptChoices {
 public:
  /// Choices of a library such as "cudnn 91900" on a device such as "NVIDIA H100 80GB HBM3", kept
  /// in `folder`. If `folder` is empty, nothing is kept.
  KeptChoices(const std::filesystem::path& folder, std::string library, std::string device);

  /// The choice for the problem, by this process or an earlier one.
  std::optional<std::string> find(const std::string& problem) const;

  /// Keeps a choice, merged with those that other processes have kept since. If the file cannot be
  /// written, this is reported once; only time is lost.
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

/// How many candidates are timed: a whole number in [1, 100]; `otherwise` if the text is null.
///
/// Throws: ValueError "RINGRAD_CUDNN_CANDIDATES: ..." for any other text
int parse_candidates(const char* text, int otherwise);

}  // namespace ringrad::kernels
