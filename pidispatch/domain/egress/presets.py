"""Name the hosts of well-known git forges and package registries, so that nobody has to look them up."""

from collections.abc import Mapping
from types import MappingProxyType

PRESETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "github": (
            "github.com",
            "api.github.com",
            "codeload.github.com",
            "uploads.github.com",
            "raw.githubusercontent.com",
            "objects.githubusercontent.com",
            "release-assets.githubusercontent.com",
            "media.githubusercontent.com",
            "github-cloud.githubusercontent.com",
        ),
        "gitlab": ("gitlab.com",),
        "bitbucket": ("bitbucket.org", "api.bitbucket.org"),
        "codeberg": ("codeberg.org",),
        "azure": ("dev.azure.com", ".visualstudio.com"),
        "npm": ("registry.npmjs.org",),
        "yarn": ("registry.yarnpkg.com", "repo.yarnpkg.com"),
        "pypi": ("pypi.org", "files.pythonhosted.org"),
        "crates": ("crates.io", "index.crates.io", "static.crates.io"),
        "rust": ("static.rust-lang.org",),
        "golang": ("proxy.golang.org", "sum.golang.org", "go.dev", "golang.org"),
        "maven": ("repo.maven.apache.org", "repo1.maven.org"),
        "gradle": ("plugins.gradle.org", "services.gradle.org", "downloads.gradle.org"),
        "nuget": ("api.nuget.org", "www.nuget.org"),
        "rubygems": ("rubygems.org", "index.rubygems.org"),
        "packagist": ("packagist.org", "repo.packagist.org"),
        "hex": ("hex.pm", "repo.hex.pm", "builds.hex.pm"),
        "debian": ("deb.debian.org", "security.debian.org"),
        "ubuntu": ("archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com"),
        "alpine": ("dl-cdn.alpinelinux.org",),
    }
)
