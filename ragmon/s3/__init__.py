"""Object stores that speak S3: AWS, MinIO and others with signature version 4."""

from ragmon.errors import RagmonError


class S3Error(RagmonError):
    """An object store refused a request, or did not answer."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0, code: str = "") -> None:
        """Make it.

        Args:
            message: about the request.
            hint: about what to do.
            status: of the answer; 0: there was none.
            code: of S3, such as ``NoSuchKey``; empty: none came.
        """
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
