"""`signing`: the key that kernels are signed with; made, shown, used on what is stored, and taken out of use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compiler.faults import UsageFault, reporting
from fusetune.errors import UnusableKey
from fusetune.signer import Signer
from fusetune.wire.signature import kernel_bytes
from service.cli.database import database_of, reports_faults
from service.cli.given import actor
from service.cli.options import DatabaseUrl, DataDir
from service.db import kernels, keys, migrate, signatures

signing = typer.Typer(help="The key that kernels are signed with: create, public, sign, forget.", no_args_is_help=True)

KeyFile = Annotated[Path, typer.Argument(help="File of the private key.", metavar="FILE")]

_HASH_CHARS = 64


@signing.command()
@reporting(UnusableKey)
@reports_faults
def create(file: KeyFile) -> None:
    """Make a private key in a new file, which only its owner may read, and print the public key."""
    typer.echo(Signer.create(file).public)
    typer.echo(f"The private key is in {file}: workers sign with it as FUSETUNE_SIGNING_KEY.", err=True)


@signing.command()
@reporting(UnusableKey)
@reports_faults
def public(file: KeyFile) -> None:
    """Print the public key, which clients trust."""
    typer.echo(Signer.load(file).public)


@signing.command()
@reporting(UnusableKey)
@reports_faults
def sign(file: KeyFile, database_url: DatabaseUrl = None, data_dir: DataDir = None) -> None:
    """Sign every stored kernel that this key has not signed: those from before it, or from before another key.

    Each artifact is held against its hash first; a damaged one is named, left unsigned, and ends in exit code 2.
    """
    signer = Signer.load(file)
    done, damaged = 0, []
    with database_of(database_url, data_dir) as database:
        migrate.ensure_ready(database)
        with database.read() as session:
            waiting = signatures.unsigned(session, signer.key)
        for sha256 in waiting:
            with database.write() as session:
                if not signatures.unsigned(session, signer.key, [sha256]):
                    continue  # deleted or pruned since
                try:
                    kernels.artifact(session, sha256)
                except kernels.DamagedArtifact as error:
                    damaged.append(str(error))
                    continue
                signatures.put(session, sha256, signer.key, signer.sign(kernel_bytes(sha256)))
                done += 1
        if done:
            with database.write() as session:
                keys.audit(session, actor(), "kernels.signed", signer.key, {"kernels": done})
    typer.echo(f"{done} kernels are signed by {signer.public}.")
    if damaged:
        raise UsageFault("\n".join(damaged))


@signing.command()
@reporting(UnusableKey)
@reports_faults
def forget(
    key: Annotated[str, typer.Argument(help="Hash of the public key, as signatures name it.", metavar="KEY")],
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Take away every signature of a key that somebody else may have. Clients that trust it must be told, too."""
    if len(key) != _HASH_CHARS:
        raise UsageFault(f"KEY: found {key!r:.100}, expected the {_HASH_CHARS} hexadecimal digits of its hash.")
    with database_of(database_url, data_dir) as database:
        migrate.ensure_ready(database)
        with database.write() as session:
            gone = signatures.forget(session, key)
            keys.audit(session, actor(), "signatures.forgotten", key, {"kernels": gone})
    typer.echo(f"{gone} signatures of {key} are gone.")
